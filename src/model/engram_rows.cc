#include "model/engram_rows.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/check.h"

namespace fathom {
namespace {

constexpr int64_t grid = DirectFile::alignment;

// What the index costs a row, about: a node of the map, its bucket, and the list.
constexpr int64_t index_bytes = 80;

// Collects small ranges of files, in ascending order, as reads of whole blocks; neighbours share a read.
class BlockReads {
 public:
  BlockReads(const DirectShards& shards, const HugeBuffer& staging) : shards_(shards), staging_(staging) {}

  /// Where the range will stand; null when staging is full.
  const std::byte* add(uint32_t shard, uint64_t offset, uint64_t bytes) {
    const uint64_t begin = offset / grid * grid;
    const uint64_t end = offset + bytes;
    ReadRequest* last = requests_.empty() ? nullptr : &requests_.back();
    const bool joins = last != nullptr && last->file == shards_[shard].get() && begin >= last->offset &&
                       begin <= (last->offset + last->bytes + grid - 1) / grid * grid;
    const uint64_t from = joins ? last->offset : begin;
    std::byte* const to = joins ? last->to : staging_.data() + used_;
    const auto needed = static_cast<int64_t>((end - from + grid - 1) / grid * grid);
    if (to + needed > staging_.data() + staging_.bytes()) return nullptr;
    if (!joins) last = &requests_.emplace_back(ReadRequest{shards_[shard].get(), begin, 0, to});
    last->bytes = std::max<size_t>(last->bytes, end - from);
    used_ = std::max(used_, (to - staging_.data()) + needed);
    return to + (offset - from);
  }

  std::span<const ReadRequest> requests() const { return requests_; }
  int64_t bytes() const { return used_; }

 private:
  const DirectShards& shards_;
  const HugeBuffer& staging_;
  std::vector<ReadRequest> requests_;
  int64_t used_ = 0;
};

}  // namespace

EngramRows::EngramRows(const Checkpoint& checkpoint, const DirectShards& shards, AsyncReader& reader,
                       std::span<const Weight> tables)
    : shards_(shards), reader_(reader) {
  for (const Weight& table : tables) {
    const auto data = checkpoint.place_of(table.data.name);
    const auto scale = checkpoint.place_of(table.scale.name);
    FATHOM_CHECK(data.has_value() && scale.has_value());
    tables_.push_back({*data, *scale, table.data.name, table.scale.name});
    row_columns_ = table.in();
    row_bytes_ = table.data.shape[1];
    scale_bytes_ = table.scale.shape[1];
  }
}

EngramRows::~EngramRows() {
  if (ticket_ != 0) (void)reader_.wait(ticket_);  // it writes to the staging memory
}

int64_t EngramRows::bytes_for(int64_t num_rows, int64_t staging_bytes) const {
  return num_rows * (row_bytes_ + scale_bytes_ + index_bytes) + staging_bytes;
}

Status EngramRows::reserve(int64_t num_rows, int64_t staging_bytes) {
  FATHOM_CHECK_LE(min_staging_bytes, staging_bytes);
  FATHOM_ASSIGN(memory_, HugeBuffer::allocate(num_rows * (row_bytes_ + scale_bytes_)));
  FATHOM_ASSIGN(staging_, HugeBuffer::allocate(staging_bytes));
  num_rows_ = num_rows;
  rows_.assign(static_cast<size_t>(num_rows), Row{none, 0, -1, -1});
  newest_ = oldest_ = -1;
  for (int64_t i = num_rows; i-- > 0;) touch(static_cast<int32_t>(i));
  return {};
}

void EngramRows::unlink(int32_t slot) {
  const Row& row = rows_[static_cast<size_t>(slot)];
  if (row.before >= 0) rows_[static_cast<size_t>(row.before)].after = row.after;
  if (row.after >= 0) rows_[static_cast<size_t>(row.after)].before = row.before;
  if (oldest_ == slot) oldest_ = row.after;
  if (newest_ == slot) newest_ = row.before;
}

// Makes a slot the newest; one that is in no list yet is linked in.
void EngramRows::touch(int32_t slot) {
  if (newest_ == slot) return;
  unlink(slot);
  Row& row = rows_[static_cast<size_t>(slot)];
  row.before = newest_;
  row.after = -1;
  if (newest_ >= 0) rows_[static_cast<size_t>(newest_)].after = slot;
  newest_ = slot;
  if (oldest_ < 0) oldest_ = slot;
}

// Rows of this pass are the newest, so the oldest is none of them while there is room for all.
int32_t EngramRows::oldest_slot() {
  const int32_t slot = oldest_;
  Row& row = rows_[static_cast<size_t>(slot)];
  FATHOM_CHECK(row.pass != pass_);
  if (row.key != none) index_.erase(row.key);
  return slot;
}

void EngramRows::drop_missing() {
  if (ticket_ != 0) (void)reader_.wait(ticket_);
  ticket_ = 0;
  pieces_.clear();
  // Their slots hold nothing.
  for (size_t i = wave_begin_; i < missing_.size(); ++i) {
    Row& row = rows_[static_cast<size_t>(missing_[i].slot)];
    index_.erase(row.key);
    row.key = none;
  }
  missing_.clear();
  wave_begin_ = wave_end_ = 0;
}

void EngramRows::request(std::span<const std::vector<int64_t>> ids) {
  FATHOM_CHECK_EQ(ids.size(), tables_.size());
  drop_missing();
  ++pass_;
  // Rows that are there first, so that none of them makes room for another.
  std::vector<uint64_t> absent;
  for (size_t t = 0; t < ids.size(); ++t) {
    for (const int64_t id : ids[t]) {
      const uint64_t key = key_of(static_cast<int64_t>(t), id);
      const auto found = index_.find(key);
      if (found == index_.end()) {
        absent.push_back(key);
        continue;
      }
      Row& row = rows_[static_cast<size_t>(found->second)];
      counters_.hits += row.pass != pass_;
      row.pass = pass_;
      touch(found->second);
    }
  }
  std::sort(absent.begin(), absent.end());
  absent.erase(std::unique(absent.begin(), absent.end()), absent.end());
  for (const uint64_t key : absent) {
    const int32_t slot = oldest_slot();
    Row& row = rows_[static_cast<size_t>(slot)];
    row.key = key;
    row.pass = pass_;
    index_[key] = slot;
    touch(slot);
    missing_.push_back({key, slot});
  }
  counters_.misses += static_cast<int64_t>(missing_.size());
  start_wave();
}

// As many of the missing rows as staging holds: first all their values, then all their scales, so that both
// are in the order of the files.
void EngramRows::start_wave() {
  wave_end_ = wave_begin_;
  if (wave_begin_ == missing_.size()) return;
  // At worst a row's values and its scales each reach into two blocks.
  const auto most = static_cast<size_t>(staging_.bytes() / (4 * grid));
  const size_t end = std::min(missing_.size(), wave_begin_ + most);
  BlockReads reads(shards_, staging_);
  constexpr uint64_t row_mask = (uint64_t{1} << table_shift) - 1;
  for (const bool scales : {false, true}) {
    for (size_t i = wave_begin_; i < end; ++i) {
      const Table& table = tables_[missing_[i].key >> table_shift];
      const Checkpoint::Place& place = scales ? table.scale : table.data;
      const auto bytes = static_cast<uint64_t>(scales ? scale_bytes_ : row_bytes_);
      const std::byte* from =
          reads.add(place.shard, place.offset + (missing_[i].key & row_mask) * bytes, bytes);
      FATHOM_CHECK(from != nullptr);
      pieces_.push_back({from, scales ? scale_at(missing_[i].slot) : data_at(missing_[i].slot),
                         static_cast<size_t>(bytes)});
    }
  }
  wave_end_ = end;
  counters_.bytes_read += reads.bytes();
  ticket_ = reader_.submit(reads.requests(), ReadUrgency::needed);
}

Status EngramRows::finish_wave() {
  const auto began = std::chrono::steady_clock::now();
  const Status status = reader_.wait(std::exchange(ticket_, 0));
  counters_.wait_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (status) {
    for (const Piece& piece : pieces_) std::memcpy(piece.to, piece.from, piece.bytes);
    wave_begin_ = wave_end_;
  }
  pieces_.clear();
  return status;
}

Status EngramRows::finish_all() {
  while (ticket_ != 0) {
    if (Status status = finish_wave(); !status) {
      drop_missing();
      return status;
    }
    start_wave();
  }
  return {};
}

Result<Weight> EngramRows::take(int64_t table, std::span<const int64_t> ids, std::span<int64_t> slots) {
  FATHOM_CHECK_EQ(ids.size(), slots.size());
  FATHOM_TRY(finish_all());
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto found = index_.find(key_of(table, ids[i]));
    FATHOM_CHECK(found != index_.end());
    slots[i] = found->second;
  }
  const Table& t = tables_[static_cast<size_t>(table)];
  return Weight{{data_at(0), DType::e4m3, Shape{num_rows_, row_columns_}, t.data_name},
                {scale_at(0), DType::e8m0, Shape{num_rows_, scale_bytes_}, t.scale_name},
                engram_table_block};
}

}  // namespace fathom
