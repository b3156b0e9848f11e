// The experts of one layer with random weights.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "bench/weight_store.h"
#include "model/config.h"

namespace fathom::bench {

class RandomExperts {
 public:
  RandomExperts(const ModelConfig& config, int64_t num_routed, int threads)
      : config_(config), num_routed_(num_routed), store_(threads) {}

  /// Copies of the shared expert together take `rotation_bytes`. `cancelled` is asked before every expert,
  /// and may be empty. Errors: out_of_memory, cancelled.
  Status prepare(int64_t rotation_bytes, const std::function<bool()>& cancelled);

  const std::vector<ExpertWeights>& routed() const { return routed_; }
  /// Copy `i`, of any number.
  const ExpertWeights& shared(size_t i) const { return shared_[i % shared_.size()]; }

  /// Bytes of one routed expert.
  static int64_t bytes_of_one(const ModelConfig& config);

 private:
  const ModelConfig& config_;
  int64_t num_routed_;
  WeightStore store_;
  std::vector<ExpertWeights> routed_, shared_;
};

}  // namespace fathom::bench
