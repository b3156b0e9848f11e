// A checkpoint in less memory than it takes: dense weights in memory, experts and engram rows in caches.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/async_reader.h"
#include "checkpoint/read_plan.h"
#include "model/engram_rows.h"
#include "model/expert_cache.h"
#include "model/memory_plan.h"
#include "model/resident_weights.h"
#include "model/weights.h"

namespace fathom {

struct MemoryOptions {
  int64_t budget = 0;     // bytes that the process may use in all
  int64_t max_rows = 0;   // of the workspaces to come
  int threads = 1;        // that compute
  bool drafting = false;  // the draft stages will be used
  int64_t max_slots = 0;  // at most so many experts in memory, for tests and measurements; 0: no limit
  LoadHooks hooks = {};
  AsyncReader::Engine engine = AsyncReader::Engine::automatic;
  DirectFile::Mode mode = DirectFile::Mode::direct;
};

/// What was read, and what was not, so far.
struct MemoryCounters {
  ExpertCounters experts;
  EngramCounters engram;
};

class MemoryTiers {
 public:
  /// Opens the shards and finds out what is needed; reads nothing. What is referred to must outlive the
  /// result. Errors: not_found, io, format, naming the file.
  static Result<std::unique_ptr<MemoryTiers>> open(const ModelConfig& config, const Checkpoint& checkpoint,
                                                   const TensorTable& tensors, MemoryOptions options);

  const MemoryNeeds& needs() const { return needs_; }
  AsyncReader& reader() { return *reader_; }
  const DirectShards& shards() const { return shards_; }

  /// Plans the budget, reads the dense weights, whose views in `tensors` (those of open()) then point to
  /// memory, and makes the caches, empty. Once. Errors: those of plan_memory and ResidentWeights::load.
  Status fill(TensorTable& tensors);

  const MemoryPlan& plan() const { return plan_; }
  ExpertCache& experts() { return *experts_; }
  /// Null without engram layers. Whoever uses them holds engram_mutex() from request to the last take.
  EngramRows* engram() { return engram_.get(); }
  std::mutex& engram_mutex() { return engram_mutex_; }

  /// Not while a pass runs.
  MemoryCounters counters() const;

 private:
  MemoryTiers(const Checkpoint& checkpoint, MemoryOptions options)
      : checkpoint_(checkpoint), options_(std::move(options)) {}
  void find_needs(const ModelConfig& config, const TensorTable& tensors);

  const Checkpoint& checkpoint_;
  MemoryOptions options_;
  std::vector<std::string> resident_names_;
  MemoryNeeds needs_;
  MemoryPlan plan_;
  // Memory that the reader writes to stands behind it here only where its owner waits for its own reads.
  ResidentWeights resident_;
  DirectShards shards_;
  std::unique_ptr<ExpertCache> experts_;
  std::unique_ptr<AsyncReader> reader_;
  std::unique_ptr<EngramRows> engram_;
  std::mutex engram_mutex_;
};

}  // namespace fathom
