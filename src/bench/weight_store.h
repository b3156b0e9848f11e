// Random weights in huge pages, and how many copies of them it takes to keep them out of the caches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/huge_buffer.h"
#include "base/result.h"
#include "ops/params.h"
#include "tensor/view.h"
#include "tensor/weight.h"

namespace fathom::bench {

/// Owns what its views show. Movable; moving leaves the views valid.
class WeightStore {
 public:
  explicit WeightStore(int threads) : threads_(threads) {}

  // Errors: out_of_memory.
  Result<TensorView> tensor(DType dtype, Shape shape);
  Result<Weight> bf16(int64_t out, int64_t in);
  Result<Weight> fp8(int64_t out, int64_t in);
  Result<Weight> fp4(int64_t out, int64_t in);

 private:
  Result<std::byte*> take(int64_t bytes, DType dtype);

  int threads_;
  uint64_t seed_ = 0;
  std::vector<HugeBuffer> blocks_;
  int64_t used_ = 0;  // of the last block
};

/// Bytes of a weight's values and scales.
inline int64_t bytes_of(const Weight& w) { return w.data.bytes() + (w.quantized() ? w.scale.bytes() : 0); }
inline int64_t bytes_of(const ExpertWeights& e) { return bytes_of(e.w1) + bytes_of(e.w2) + bytes_of(e.w3); }

/// Copies of `bytes` that together take `rotation_bytes`, at least one.
inline int64_t copies_for(int64_t bytes, int64_t rotation_bytes) {
  return bytes <= 0 ? 1 : std::max<int64_t>((rotation_bytes + bytes - 1) / bytes, 1);
}

}  // namespace fathom::bench
