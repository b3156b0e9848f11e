// Routed experts in less memory than they take: a cache of whole experts, filled from disk (spec 7, tiers).
//
// All layers and draft stages share one pool of slots, since some layers need more variety than others. Which
// expert makes room is decided by recency and frequency together (LRFU): every use counts 1 and loses
// half its weight in `half_life` passes; the smallest sum goes. Recency alone forgets experts that most
// texts use as soon as one token strays; frequency alone keeps what an earlier text needed. The sums of
// experts that are not in memory are kept too, so that one that comes back has its history. On the demo model
// with memory for three eighths to five eighths of the experts, recency alone reads 10 to 28 % more.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "base/async_reader.h"
#include "base/huge_buffer.h"
#include "checkpoint/read_plan.h"
#include "ops/expert_source.h"

namespace fathom {

struct ExpertCounters {
  int64_t hits = 0;        // experts that were in memory when they were asked for, prefetched ones included
  int64_t misses = 0;      // experts that were read because they were asked for
  int64_t prefetched = 0;  // experts that were read because they might be asked for
  int64_t prefetched_used = 0;  // of these, asked for next time
  int64_t forecast = 0;         // experts that were expected
  int64_t forecast_right = 0;   // of these, asked for
  int64_t bytes_read = 0;       // from disk
  double wait_seconds = 0;      // with nothing to compute
};

/// Thread-safe but for add_layer and reserve, which come first, in this order. Leases must end before it
/// does.
class ExpertCache {
 public:
  static constexpr double half_life = 16;  // passes

  /// What is referred to must outlive the cache.
  ExpertCache(const Checkpoint& checkpoint, const DirectShards& shards, AsyncReader& reader)
      : checkpoint_(checkpoint), shards_(shards), reader_(reader) {}

  /// A layer's experts, with views as bound to the checkpoint: names and shapes are used, data is not.
  /// Returns the layer's number here: 0, 1, ...
  int64_t add_layer(std::vector<ExpertWeights> experts);

  int64_t num_layers() const { return static_cast<int64_t>(layers_.size()); }
  int64_t num_experts() const { return static_cast<int64_t>(experts_.size()); }
  /// What the largest expert takes: the size of a slot.
  int64_t slot_bytes() const { return slot_bytes_; }

  /// Memory for `num_slots` >= 1 experts; more than there are experts are not made. Memory is used when a
  /// slot is first filled. Errors: out_of_memory.
  Status reserve(int64_t num_slots);
  int64_t num_slots() const { return static_cast<int64_t>(slots_.size()); }
  /// Whether nothing has to make room ever.
  bool holds_all() const { return num_slots() >= num_experts(); }

  /// A layer's experts by way of the cache, which must outlive it.
  std::unique_ptr<ExpertSource> source(int64_t layer);

  /// A hint that `layer` will probably be asked for these experts (the likeliest first, without duplicates)
  /// after one more layer. Never waits. Reading starts when that other layer has been asked for its own
  /// experts, so that these lose no slot and no time to the guess, and only as far down the list as hints for
  /// the layer have nearly always been right: a wrong one costs bandwidth.
  void expect(int64_t layer, std::span<const int32_t> experts);

  ExpertCounters counters() const;

 private:
  class Source;
  class Lease;

  struct Expert {
    ExpertWeights weights;  // as bound
    ReadPlan plan;
    double value = never;  // LRFU: use time in half lives plus log2 of the sum, which time does not change
    int32_t slot = -1;
  };
  enum class State { empty, loading, ready, failed };
  struct Slot {
    State state = State::empty;
    int32_t expert = -1;
    int32_t holders = 0;  // leases
    bool prefetched = false;
    double value = never;  // the key in evictable_, when there
    AsyncReader::Ticket ticket = 0;
    Status status;          // why it failed
    ExpertWeights weights;  // in the pool
  };
  struct Layer {
    int32_t first = 0;  // of its experts
    int32_t size = 0;
    std::vector<int32_t> expected;  // the likeliest first
    std::vector<double> precision;  // of past hints, by their place in the list; the latest weigh most
  };
  static constexpr double never = -1e300;

  // All with mutex_ held.
  double now() const { return static_cast<double>(takes_) / static_cast<double>(layers_.size()) / half_life; }
  double used_now(double value) const;
  void score_forecast(Layer& layer, std::span<const int32_t> experts);
  bool has_room() const { return !empty_.empty() || !evictable_.empty(); }
  int32_t find_slot();
  void read_ahead();
  void settle();
  bool settle(int32_t slot);
  bool start_read(int32_t expert, ReadUrgency urgency);
  void hold(int32_t slot);
  void release(int32_t slot);

  const Checkpoint& checkpoint_;
  const DirectShards& shards_;
  AsyncReader& reader_;
  HugeBuffer pool_;
  int64_t slot_bytes_ = 0;
  std::vector<Expert> experts_;
  std::vector<Layer> layers_;

  mutable std::mutex mutex_;
  std::condition_variable released_;
  std::vector<Slot> slots_;
  std::vector<int32_t> empty_;                      // slots
  std::vector<int32_t> loading_;                    // slots
  std::vector<int32_t> ahead_;                      // experts to read when those asked for are on their way
  std::set<std::pair<double, int32_t>> evictable_;  // value and slot: ready, and held by nobody
  int64_t takes_ = 0;
  ExpertCounters counters_;
};

}  // namespace fathom
