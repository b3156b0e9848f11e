// The two-level choice of compressed positions (spec 1, Indexer), in one pass over the keys.
//
// Scores live for one tile of keys; of each row only the best so far are kept. With many rows the rows are
// shared out, some together, so that they share the unpacking of the keys; with few the keys are. A score is
// a function of query and key, and the order of scores is total: no choice depends on how the work was cut.
#include "backend/cpu/kernels.h"
#include "backend/fast/index_rows.h"
#include "backend/fast/operations.h"

namespace fathom::fast {
namespace {

using cpu::elements;

constexpr int64_t keys_at_once = 128;
constexpr int64_t choice_memory = 8 << 20;  // bytes, over all workers, unless one row's choices take more

// Ascending; `spare` has n elements. A few bytes at a time, since a comparing sort mispredicts half of its
// comparisons.
void sort_indices(int32_t* x, int64_t n, int32_t* spare) {
  int32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, x[i]);
  int32_t* from = x;
  int32_t* to = spare;
  for (int shift = 0; largest >> shift != 0; shift += 8) {
    int32_t starts[257] = {};
    for (int64_t i = 0; i < n; ++i) ++starts[(from[i] >> shift & 255) + 1];
    for (int i = 0; i < 256; ++i) starts[i + 1] += starts[i];
    for (int64_t i = 0; i < n; ++i) to[starts[from[i] >> shift & 255]++] = from[i];
    std::swap(from, to);
    if (shift == 24) break;
  }
  if (from != x) std::copy_n(from, n, x);
}

class Selection {
 public:
  Selection(const Context& context, const IndexTask& task)
      : context_(context), task_(task), topk_(task.p.picked.shape[1]) {
    num_blocks_ = task.has_blocks() ? task.p.candidates.shape[1] : 0;
    query_bytes_ = task.kernels.query_bytes(task.heads, task.dim);
  }

  /// The rows that one worker takes together, at most.
  int64_t rows_at_once() const {
    if (task_.p.role == CandidateRole::user) return 1;
    const int64_t workers = context_.pool.num_threads();
    const int64_t fitting = choice_memory / (workers * row_memory() * static_cast<int64_t>(sizeof(Scored)));
    return std::clamp<int64_t>(fitting, 1, max_index_rows);
  }

  void by_rows(const IndexRows* all, int64_t count) const {
    context_.pool.parallel_for_workers(count, 1, [&](int64_t begin, int64_t end, int worker) {
      Scratch& scratch = context_.worker[static_cast<size_t>(worker)];
      for (int64_t i = begin; i < end; ++i) {
        const IndexRows& rows = all[i];
        RowQuery queries[max_index_rows];
        prepare(rows, scratch, queries);
        RowChoice* choices = start(rows, scratch);
        choose_in_tiles(task_, rows, queries, 0, num_tiles(task_, rows), TileMemory::take(task_, scratch),
                        choices);
        for (int64_t r = 0; r < rows.count; ++r) finish(rows.first_row + r, &choices, 1, r, scratch);
      }
    });
  }

  void by_keys(const IndexRows& rows) const {
    RowQuery queries[max_index_rows];
    prepare(rows, context_.scratch, queries);
    const auto workers = static_cast<int64_t>(context_.worker.size());
    auto** choices = context_.scratch.take<RowChoice*>(Scratch::input, workers);
    for (int64_t w = 0; w < workers; ++w) choices[w] = start(rows, context_.worker[static_cast<size_t>(w)]);
    const int64_t tiles = num_tiles(task_, rows);
    // A worker reads ahead within what it takes at once.
    const int64_t grain = std::clamp<int64_t>(tiles / (8 * workers), 1, 64);
    context_.pool.parallel_for_workers(tiles, grain, [&](int64_t begin, int64_t end, int worker) {
      const auto w = static_cast<size_t>(worker);
      choose_in_tiles(task_, rows, queries, begin, end, TileMemory::take(task_, context_.worker[w]),
                      choices[w]);
    });
    for (int64_t r = 0; r < rows.count; ++r)
      finish(rows.first_row + r, choices, workers, r, context_.scratch);
  }

 private:
  int64_t row_memory() const { return BestScores::capacity(topk_) + BestScores::capacity(num_blocks_); }

  void prepare(const IndexRows& rows, Scratch& scratch, RowQuery* out) const {
    const IndexSelectParams& p = task_.p;
    auto* memory = scratch.take<uint8_t>(Scratch::queries, rows.count * query_bytes_);
    auto* weights = scratch.take<float>(Scratch::weights, rows.count * task_.heads);
    for (int64_t i = 0; i < rows.count; ++i, weights += task_.heads) {
      const int64_t row = rows.first_row + i;
      const bf16* values = elements<bf16>(p.queries) + row * task_.heads * task_.dim;
      for (int64_t h = 0; h < task_.heads; ++h)
        weights[h] = to_float(elements<bf16>(p.head_weights)[row * task_.heads + h]) * p.weight_scale;
      uint8_t* prepared = memory + i * query_bytes_;
      const bool can = task_.kernels.prepare(reinterpret_cast<const uint16_t*>(values), weights, task_.heads,
                                             task_.dim, prepared);
      out[i] = {can ? prepared : nullptr, values, weights};
    }
  }

  RowChoice* start(const IndexRows& rows, Scratch& scratch) const {
    auto* choices = scratch.take<RowChoice>(Scratch::result, rows.count);
    auto* memory = scratch.take<Scored>(Scratch::partial, rows.count * row_memory());
    for (int64_t i = 0; i < rows.count; ++i, memory += row_memory()) {
      choices[i].keys.start(memory, topk_);
      choices[i].blocks.start(memory + BestScores::capacity(topk_), num_blocks_);
    }
    return choices;
  }

  // The best of what `num` workers found for their `row`-th row, ascending.
  static int32_t merge(RowChoice* const* choices, int64_t num, int64_t row, BestScores RowChoice::*which,
                       int64_t k, Scratch& scratch, int32_t* out) {
    int64_t count = 0;
    for (int64_t w = 0; w < num; ++w) {
      (choices[w][row].*which).keep_best();
      count += (choices[w][row].*which).count();
    }
    auto* all = scratch.take<Scored>(Scratch::more_weights, count);
    Scored* end = all;
    for (int64_t w = 0; w < num; ++w) {
      const BestScores& part = choices[w][row].*which;
      end = std::copy_n(part.data(), part.count(), end);
    }
    if (count > k) select_largest(all, k, count);
    count = std::min(count, k);
    for (int64_t i = 0; i < count; ++i) out[i] = index_of(all[i]);
    sort_indices(out, count, scratch.take<int32_t>(Scratch::hidden, count));
    return static_cast<int32_t>(count);
  }

  void finish(int64_t row, RowChoice* const* choices, int64_t num, int64_t i, Scratch& scratch) const {
    const IndexSelectParams& p = task_.p;
    elements<int32_t>(p.num_picked)[row] =
        merge(choices, num, i, &RowChoice::keys, topk_, scratch, elements<int32_t>(p.picked) + row * topk_);
    if (!task_.has_blocks()) return;
    elements<int32_t>(p.num_candidates)[row] =
        merge(choices, num, i, &RowChoice::blocks, num_blocks_, scratch,
              elements<int32_t>(p.candidates) + row * num_blocks_);
  }

  const Context& context_;
  const IndexTask& task_;
  int64_t topk_;
  int64_t num_blocks_;
  int64_t query_bytes_;
};

int64_t keys_in_tile(const IndexSelectParams& p) {
  if (p.role == CandidateRole::none) return keys_at_once;
  FATHOM_CHECK_LE(1, p.candidate_block_size);
  return (keys_at_once + p.candidate_block_size - 1) / p.candidate_block_size * p.candidate_block_size;
}

}  // namespace

bool can_select(const IndexSelectParams& p) {
  const int64_t dim = p.queries.shape[2];
  return p.scores.data == nullptr && dim % index_block == 0 && dim <= index_max_dim &&
         p.picked.shape[1] > 0 && (p.role != CandidateRole::source || p.candidates.shape[1] > 0);
}

Status index_select(const Context& context, const IndexSelectParams& p) {
  std::atomic<bool> bad_score{false};
  const int64_t dim = p.queries.shape[2];
  const int64_t tile_keys = keys_in_tile(p);
  const IndexTask task{p,
                       index_kernels(context.isa),
                       p.queries.shape[1],
                       dim,
                       index_record(dim).bytes(),
                       tile_keys,
                       (tile_keys + index_lanes - 1) / index_lanes,
                       bad_score};
  const Selection selection(context, task);
  const int64_t workers = context.pool.num_threads();
  const bool many = p.queries.shape[0] >= 2 * workers;
  const int64_t at_once =
      many ? std::clamp<int64_t>(p.queries.shape[0] / (2 * workers), 1, selection.rows_at_once())
           : selection.rows_at_once();
  int64_t count = 0;
  for (const RowSpan& span : p.spans) count += (span.num_rows + at_once - 1) / at_once;
  auto* all = context.scratch.take<IndexRows>(Scratch::up, count);
  IndexRows* end = all;
  for (size_t s = 0; s < p.spans.size(); ++s)
    for (int64_t r = 0; r < p.spans[s].num_rows; r += at_once)
      *end++ = {s, p.spans[s].first_row + r, std::min(at_once, p.spans[s].num_rows - r)};
  if (many)
    selection.by_rows(all, count);
  else
    for (int64_t i = 0; i < count; ++i) selection.by_keys(all[i]);
  if (bad_score)
    return fail(ErrorCode::format, "expected index scores, found NaN: the checkpoint is damaged");
  return {};
}

}  // namespace fathom::fast
