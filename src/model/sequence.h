// What one sequence owns between steps: window rings, compressed KV, index keys, open groups and the n-gram
// history (spec 7). Everything is addressed by position, so that taking positions back is only a new length.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "ops/ops.h"

namespace fathom {

/// Position-addressed records that grow in blocks and never move.
class RecordStore {
 public:
  static constexpr int64_t records_per_block = 256;

  explicit RecordStore(int64_t record_bytes) : record_bytes_(record_bytes) {}

  /// Makes room for records [0, count). Errors: out_of_memory, leaving what was there.
  Status reserve(Ops& ops, int64_t count);
  RecordsView view() const { return {pointers_, records_per_block}; }
  int64_t record_bytes() const { return record_bytes_; }
  int64_t bytes() const { return static_cast<int64_t>(pointers_.size()) * records_per_block * record_bytes_; }

 private:
  int64_t record_bytes_;
  std::vector<Buffer> blocks_;
  std::vector<std::byte*> pointers_;
};

/// One sequence's state on one backend. Movable; the Ops and the config it was made with must outlive it.
class Sequence {
 public:
  /// The most positions `rewind` may take back at once.
  static constexpr int64_t max_rewind = 8;

  /// With `drafting` it also keeps the draft stages' windows (spec 4, Draft keys).
  static Result<Sequence> create(const ModelConfig& config, Ops& ops, bool drafting);

  bool drafting() const { return drafting_; }

  /// Positions held.
  int64_t length() const { return length_; }
  /// Takes back the last `n` positions, n <= max_rewind and n <= length(): the next rows continue as if they
  /// had never been. At most max_rewind positions may be taken back between two forward passes.
  void rewind(int64_t n);
  /// Bytes in backend memory now.
  int64_t bytes() const;

  // For the model only.

  /// Room for `num_rows` more positions. Errors: invalid_argument past the model's context, out_of_memory.
  Status reserve(int64_t num_rows);
  /// `layer` may be a draft stage, n_layers + i, when drafting.
  RingView window(int64_t layer) const;
  /// `source` is an index into config.kv_source_layers.
  RecordsView compressed(int64_t source) const {
    return sources_[static_cast<size_t>(source)].compressed.view();
  }
  RecordsView index_keys(int64_t source) const {
    return sources_[static_cast<size_t>(source)].index_keys.view();
  }
  RingView open_rows(int64_t source) const;
  /// Compressed token ids by position, -1 where dead; grows before a pass, cut back by `rewind`.
  std::vector<int32_t>& engram_ids() { return engram_ids_; }
  void advance(int64_t num_rows) { length_ += num_rows; }
  /// Marks the state as unusable after a pass that failed half-way.
  void poison() { poisoned_ = true; }
  bool poisoned() const { return poisoned_; }

  /// Bytes a sequence of `positions` needs (for reports), without creating one.
  static int64_t bytes_for(const ModelConfig& config, int64_t positions, bool drafting);

 private:
  struct Source {
    int64_t ratio;
    RecordStore compressed;
    RecordStore index_keys;
    Buffer open;  // f32 [slots, 2, head_dim]; empty when the ratio is 1
    int64_t open_slots;
  };

  Sequence(const ModelConfig& config, Ops& ops, bool drafting)
      : config_(&config), ops_(&ops), drafting_(drafting) {}

  const ModelConfig* config_;
  Ops* ops_;
  bool drafting_;
  int64_t length_ = 0;
  bool poisoned_ = false;
  Buffer windows_;  // [layers and draft stages, slots, record bytes]
  std::vector<Source> sources_;
  std::vector<int32_t> engram_ids_;
};

}  // namespace fathom
