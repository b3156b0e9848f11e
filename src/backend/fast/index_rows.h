// Some rows of one sequence whose choices among its index keys are made together: what the parts of
// index_select.cc share.
#pragma once

#include <atomic>
#include <cstdint>

#include "backend/cpu/context.h"
#include "backend/fast/best_scores.h"
#include "backend/fast/context.h"
#include "backend/fast/index_kernels.h"
#include "ops/params.h"
#include "tensor/cache_layout.h"

namespace fathom::fast {

inline constexpr int64_t max_index_rows = 8;

/// Consecutive rows of one span; one row alone when each row has keys of its own (CandidateRole::user).
struct IndexRows {
  size_t span = 0;
  int64_t first_row = 0;
  int64_t count = 0;
};

/// One row's query: prepared, or as it is where it cannot be.
struct RowQuery {
  const uint8_t* prepared;  // null: it cannot be
  const bf16* values;       // [heads, dim]
  const float* weights;     // [heads]
};

/// What one worker found for one row.
struct RowChoice {
  BestScores keys;
  BestScores blocks;  // CandidateRole::source
};

/// The operation's constants.
struct IndexTask {
  const IndexSelectParams& p;
  IndexKernels kernels;
  int64_t heads;
  int64_t dim;
  int64_t record_bytes;
  int64_t tile_keys;    // scored at a time; whole blocks where blocks matter
  int64_t tile_groups;  // groups of 16 for them
  std::atomic<bool>& bad_score;

  bool has_blocks() const { return p.role == CandidateRole::source; }
  int64_t block_size() const { return p.candidate_block_size; }
  int64_t visible(const IndexRows& rows, int64_t i) const {
    const RowSpan& span = p.spans[rows.span];
    return (span.first_position + rows.first_row + i - span.first_row + 1) / p.ratio;
  }
};

/// The score of one key by the exact path's arithmetic, for the inputs that the kernels leave alone.
float plain_index_score(const IndexTask& task, const RowQuery& query, const uint8_t* record);

/// The memory in which a worker scores tiles.
struct TileMemory {
  const uint8_t** records;  // [2, tile_groups * 16]: this tile's and the next one's
  int32_t* positions;       // [2, tile_groups * 16]
  uint8_t* keys;
  uint16_t* odd;
  float* scores;  // [tile_groups * 16]
  float* maxima;  // [tile_keys]

  static TileMemory take(const IndexTask& task, Scratch& scratch);
};

/// Scores tiles [begin, end) of the rows' keys and adds them to the rows' choices.
void choose_in_tiles(const IndexTask& task, const IndexRows& rows, const RowQuery* queries, int64_t begin,
                     int64_t end, const TileMemory& memory, RowChoice* choices);

/// How many tiles the rows' keys make.
int64_t num_tiles(const IndexTask& task, const IndexRows& rows);

}  // namespace fathom::fast
