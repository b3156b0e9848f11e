#include "backend/fast/index_rows.h"

#include <cmath>

namespace fathom::fast {
namespace {

/// One tile's keys: their positions ascend. The records are padded to whole groups.
struct Tile {
  int64_t count = 0;
  const uint8_t** records;
  int32_t* positions;
};

int64_t blocks_per_tile(const IndexTask& task) { return task.tile_keys / task.block_size(); }

class TileReader {
 public:
  TileReader(const IndexTask& task, const IndexRows& rows)
      : task_(task), rows_(rows), visible_(task.visible(rows, rows.count - 1)) {}

  void read(int64_t tile, Tile& out) const {
    out.count = 0;
    if (task_.p.role == CandidateRole::user) {
      const int32_t* blocks =
          cpu::elements<int32_t>(task_.p.candidates) + rows_.first_row * task_.p.candidates.shape[1];
      const int64_t num_blocks = cpu::elements<int32_t>(task_.p.num_candidates)[rows_.first_row];
      const int64_t end = std::min((tile + 1) * blocks_per_tile(task_), num_blocks);
      for (int64_t b = tile * blocks_per_tile(task_); b < end; ++b)
        add(blocks[b] * task_.block_size(), (blocks[b] + 1) * task_.block_size(), out);
    } else {
      add(tile * task_.tile_keys, (tile + 1) * task_.tile_keys, out);
    }
    if (out.count == 0) return;
    const int64_t whole = (out.count + index_lanes - 1) / index_lanes * index_lanes;
    for (int64_t i = out.count; i < whole; ++i) out.records[i] = out.records[out.count - 1];
  }

 private:
  void add(int64_t begin, int64_t end, Tile& out) const {
    const RecordsView& keys = task_.p.keys[rows_.span];
    end = std::min(end, visible_);
    while (begin < end) {
      const int64_t stop = std::min(end, (begin / keys.records_per_block + 1) * keys.records_per_block);
      const auto* record = reinterpret_cast<const uint8_t*>(keys.at(begin, task_.record_bytes));
      for (; begin < stop; ++begin, record += task_.record_bytes) {
        out.records[out.count] = record;
        out.positions[out.count++] = static_cast<int32_t>(begin);
      }
    }
  }

  const IndexTask& task_;
  const IndexRows& rows_;
  int64_t visible_;
};

void score_plainly(const IndexTask& task, const RowQuery& query, const Tile& tile, const uint16_t* odd,
                   float* scores) {
  for (int64_t i = 0; i < tile.count; ++i)
    if (query.prepared == nullptr || (odd[i / index_lanes] >> (i % index_lanes) & 1) != 0)
      scores[i] = plain_index_score(task, query, tile.records[i]);
}

bool any_odd(const uint16_t* odd, int64_t groups) {
  return std::any_of(odd, odd + groups, [](uint16_t o) { return o != 0; });
}

// n scores to `best`, the i-th of index index_at(i), ascending. True when one is NaN.
template <class IndexAt>
bool add_scores(const IndexKernels& kernels, const float* scores, int64_t n, const IndexAt& index_at,
                BestScores& best) {
  bool bad = false;
  for (int64_t i = kernels.find_above(scores, 0, n, best.threshold()); i < n;
       i = kernels.find_above(scores, i, n, best.threshold())) {
    const int64_t end = std::min(i + BestScores::chunk, n);
    for (int64_t j = i; j < end; ++j) bad = bad || scores[j] != scores[j];
    best.add(scores + i, end - i, [&](int64_t j) { return index_at(i + j); });
    i = end;
  }
  return bad;
}

void add_keys(const IndexTask& task, const TileMemory& memory, const int32_t* positions, int64_t n,
              int64_t visible, RowChoice& choice) {
  if (add_scores(
          task.kernels, memory.scores, n, [&](int64_t i) { return positions[i]; }, choice.keys))
    task.bad_score = true;
  if (!task.has_blocks()) return;
  const int64_t size = task.block_size();
  const int64_t num_blocks = (n + size - 1) / size;
  const int64_t first = positions[0] / size;
  const int64_t newest = (visible - 1) / size;
  task.kernels.block_maxima(memory.scores, n, size, memory.maxima);
  if (first + num_blocks > newest) memory.maxima[newest - first] = INFINITY;
  add_scores(
      task.kernels, memory.maxima, num_blocks, [&](int64_t b) { return static_cast<int32_t>(first + b); },
      choice.blocks);
}

}  // namespace

float plain_index_score(const IndexTask& task, const RowQuery& query, const uint8_t* record) {
  float key[index_max_dim];
  unpack_index(reinterpret_cast<const std::byte*>(record), task.dim, key);
  double score = 0;
  for (int64_t h = 0; h < task.heads; ++h) {
    double dot = 0;
    for (int64_t i = 0; i < task.dim; ++i)
      dot += static_cast<double>(to_float(query.values[h * task.dim + i])) * static_cast<double>(key[i]);
    score += std::max(dot, 0.0) * static_cast<double>(query.weights[h]);
  }
  return static_cast<float>(score);
}

TileMemory TileMemory::take(const IndexTask& task, Scratch& scratch) {
  const int64_t lanes = task.tile_groups * index_lanes;
  TileMemory m{};
  m.records = scratch.take<const uint8_t*>(Scratch::input, 2 * lanes);
  m.positions = scratch.take<int32_t>(Scratch::gate, 2 * lanes);
  m.keys = scratch.take<uint8_t>(Scratch::keys, task.tile_groups * task.kernels.group_bytes(task.dim));
  m.odd = scratch.take<uint16_t>(Scratch::up, task.tile_groups);
  m.scores = scratch.take<float>(Scratch::row, lanes);
  m.maxima = scratch.take<float>(Scratch::hidden, task.tile_keys);
  return m;
}

int64_t num_tiles(const IndexTask& task, const IndexRows& rows) {
  if (task.p.role == CandidateRole::user) {
    const int64_t blocks = cpu::elements<int32_t>(task.p.num_candidates)[rows.first_row];
    return (blocks + blocks_per_tile(task) - 1) / blocks_per_tile(task);
  }
  return (task.visible(rows, rows.count - 1) + task.tile_keys - 1) / task.tile_keys;
}

void choose_in_tiles(const IndexTask& task, const IndexRows& rows, const RowQuery* queries, int64_t begin,
                     int64_t end, const TileMemory& memory, RowChoice* choices) {
  const TileReader reader(task, rows);
  const int64_t lanes = task.tile_groups * index_lanes;
  Tile tiles[2];
  for (int i = 0; i < 2; ++i) tiles[i] = {0, memory.records + i * lanes, memory.positions + i * lanes};
  if (begin < end) reader.read(begin, tiles[begin % 2]);
  for (int64_t t = begin; t < end; ++t) {
    const Tile& tile = tiles[t % 2];
    Tile& next = tiles[(t + 1) % 2];
    next.count = 0;
    if (t + 1 < end) reader.read(t + 1, next);
    if (tile.count == 0) continue;
    const int64_t groups = (tile.count + index_lanes - 1) / index_lanes;
    task.kernels.unpack(tile.records, groups, task.dim, memory.keys, memory.odd);
    const bool odd = any_odd(memory.odd, groups);
    const uint8_t* const* ahead = next.count >= tile.count ? next.records : nullptr;
    for (int64_t r = 0; r < rows.count; ++r) {
      const int64_t visible = task.visible(rows, r);
      const int32_t* past = std::lower_bound(tile.positions, tile.positions + tile.count, visible);
      const int64_t n = past - tile.positions;
      if (n == 0) continue;
      if (queries[r].prepared != nullptr)
        task.kernels.score(queries[r].prepared, memory.keys, (n + index_lanes - 1) / index_lanes, ahead,
                           memory.scores);
      if (odd || queries[r].prepared == nullptr)
        score_plainly(task, queries[r], {n, tile.records, tile.positions}, memory.odd, memory.scores);
      add_keys(task, memory, tile.positions, n, visible, choices[r]);
      ahead = nullptr;
    }
  }
}

}  // namespace fathom::fast
