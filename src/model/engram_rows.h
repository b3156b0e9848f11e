// Rows of the engram tables without the tables: read from disk by row, with a cache (spec 3, Where the tables
// live).
//
// A pass asks for the rows of all its positions and all engram layers at once, before its first layer, and
// takes them when a layer needs them. The cache keeps the rows that were used last: n-grams are
// Zipf-distributed, so that most lookups repeat.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/async_reader.h"
#include "base/huge_buffer.h"
#include "checkpoint/read_plan.h"
#include "tensor/weight.h"

namespace fathom {

struct EngramCounters {
  int64_t hits = 0;        // distinct rows of a pass that were in memory
  int64_t misses = 0;      // distinct rows of a pass that were not
  int64_t bytes_read = 0;  // from disk: whole blocks of 4 KiB
  double wait_seconds = 0;
};

/// One pass at a time.
class EngramRows {
 public:
  /// What is referred to must outlive it. `tables`: those of the engram layers in order, as bound to the
  /// checkpoint, with rows of equal size.
  EngramRows(const Checkpoint& checkpoint, const DirectShards& shards, AsyncReader& reader,
             std::span<const Weight> tables);
  ~EngramRows();
  EngramRows(const EngramRows&) = delete;
  EngramRows& operator=(const EngramRows&) = delete;

  /// Bytes that reserve(num_rows, staging) takes.
  int64_t bytes_for(int64_t num_rows, int64_t staging_bytes) const;
  /// The least that staging works with, and what `num_rows` rows need to be read all at once.
  static constexpr int64_t min_staging_bytes = int64_t{64} << 12;
  static int64_t staging_for(int64_t num_rows) { return num_rows * 3 * (int64_t{1} << 12); }

  /// Errors: out_of_memory.
  Status reserve(int64_t num_rows, int64_t staging_bytes);

  /// Starts reading what a pass needs: for each table the rows of all positions, duplicates as they come. The
  /// distinct ones must not be more than num_rows. Forgets what an earlier pass asked for.
  void request(std::span<const std::vector<int64_t>> ids);

  /// Waits for the rows of one table and writes to `slots` where each of `ids` (as in the request) stands in
  /// the matrix returned, which is valid until the next request. Errors: io, naming the file.
  Result<Weight> take(int64_t table, std::span<const int64_t> ids, std::span<int64_t> slots);

  const EngramCounters& counters() const { return counters_; }

 private:
  struct Table {
    Checkpoint::Place data, scale;
    std::string_view data_name, scale_name;
  };
  struct Row {
    uint64_t key = 0;                 // of index_; `none` when the slot is empty
    uint64_t pass = 0;                // that used it last
    int32_t before = -1, after = -1;  // in order of use
  };
  struct Missing {
    uint64_t key = 0;
    int32_t slot = -1;
  };
  /// A copy to be made when a wave has been read.
  struct Piece {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    size_t bytes = 0;
  };
  static constexpr uint64_t none = ~uint64_t{0};
  static constexpr int table_shift = 56;
  static uint64_t key_of(int64_t table, int64_t row) {
    return static_cast<uint64_t>(table) << table_shift | static_cast<uint64_t>(row);
  }

  std::byte* data_at(int64_t slot) const { return memory_.data() + slot * row_bytes_; }
  std::byte* scale_at(int64_t slot) const {
    return memory_.data() + num_rows_ * row_bytes_ + slot * scale_bytes_;
  }
  void touch(int32_t slot);
  void unlink(int32_t slot);
  int32_t oldest_slot();
  void start_wave();
  Status finish_wave();
  Status finish_all();
  void drop_missing();

  const DirectShards& shards_;
  AsyncReader& reader_;
  std::vector<Table> tables_;
  int64_t row_bytes_ = 0, scale_bytes_ = 0;
  int64_t row_columns_ = 0;

  HugeBuffer memory_;  // [num_rows, row_bytes], then [num_rows, scale_bytes]
  HugeBuffer staging_;
  int64_t num_rows_ = 0;
  std::unordered_map<uint64_t, int32_t> index_;
  std::vector<Row> rows_;
  int32_t newest_ = -1, oldest_ = -1;

  uint64_t pass_ = 0;
  std::vector<Missing> missing_;  // of the pass, not yet in memory: in the order of the files
  size_t wave_begin_ = 0, wave_end_ = 0;
  std::vector<Piece> pieces_;  // of the wave that is being read
  AsyncReader::Ticket ticket_ = 0;
  EngramCounters counters_;
};

}  // namespace fathom
