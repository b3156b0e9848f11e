// The two-level choice of compressed positions (spec 1, Indexer).
#include <atomic>
#include <vector>

#include "backend/cpu/kernels.h"
#include "tensor/cache_layout.h"

namespace fathom::cpu {
namespace {

constexpr float unreachable = -INFINITY;

struct RowQuery {
  std::vector<float> heads;  // [heads, dim]
  std::vector<const float*> head_rows;
  std::vector<double> weights;  // [heads]
};

RowQuery load_query(const IndexSelectParams& p, int64_t r) {
  const int64_t heads = p.queries.shape[1];
  const int64_t dim = p.queries.shape[2];
  RowQuery query;
  query.heads.resize(static_cast<size_t>(heads * dim));
  to_floats(elements<bf16>(p.queries) + r * heads * dim, heads * dim, query.heads.data());
  for (int64_t h = 0; h < heads; ++h) {
    query.head_rows.push_back(query.heads.data() + h * dim);
    const float weight = to_float(elements<bf16>(p.head_weights)[r * heads + h]) * p.weight_scale;
    query.weights.push_back(static_cast<double>(weight));
  }
  return query;
}

// scores[j - begin] for compressed positions [begin, end). False when one was NaN: it is unreachable then.
bool score_range(const Context& context, const RowQuery& query, const RecordsView& keys, int64_t dim,
                 int64_t begin, int64_t end, float* scores) {
  const int64_t record = index_record(dim).bytes();
  const auto heads = static_cast<int64_t>(query.head_rows.size());
  std::vector<float> key(static_cast<size_t>(dim));
  std::vector<double> dots(static_cast<size_t>(heads));
  const float* key_row = key.data();
  bool numbers = true;
  for (int64_t j = begin; j < end; ++j) {
    unpack_index(keys.at(j, record), dim, key.data());
    context.kernels.dots(query.head_rows.data(), heads, &key_row, 1, dim, dots.data());
    double score = 0;
    for (int64_t h = 0; h < heads; ++h)
      score += std::max(dots[static_cast<size_t>(h)], 0.0) * query.weights[static_cast<size_t>(h)];
    const auto rounded = static_cast<float>(score);
    if (rounded != rounded) numbers = false;
    scores[j - begin] = rounded == rounded ? rounded : unreachable;
  }
  return numbers;
}

struct Scored {
  float score;
  int32_t index;
};

// The k largest scores, ties to the lower index; unreachable ones never. Writes them ascending by index.
int32_t choose(std::vector<Scored>& all, int64_t k, int32_t* out) {
  std::erase_if(all, [](const Scored& s) { return s.score == unreachable; });
  const auto better = [](const Scored& a, const Scored& b) {
    return a.score > b.score || (a.score == b.score && a.index < b.index);
  };
  const auto n = std::min<int64_t>(k, static_cast<int64_t>(all.size()));
  if (n < static_cast<int64_t>(all.size())) std::nth_element(all.begin(), all.begin() + n, all.end(), better);
  for (int64_t i = 0; i < n; ++i) out[i] = all[static_cast<size_t>(i)].index;
  std::sort(out, out + n);
  return static_cast<int32_t>(n);
}

}  // namespace

// Reduces scores to blocks by their maximum, pins the newest block, and keeps the best reachable ones.
int32_t choose_blocks(std::span<const float> scores, int64_t visible, int64_t block, int64_t k,
                      int32_t* out) {
  std::vector<Scored> blocks;
  for (int64_t b = 0; b * block < visible; ++b) {
    float best = unreachable;
    for (int64_t j = b * block; j < std::min((b + 1) * block, visible); ++j)
      best = std::max(best, scores[static_cast<size_t>(j)]);
    if (b == (visible - 1) / block) best = INFINITY;
    blocks.push_back({best, static_cast<int32_t>(b)});
  }
  return choose(blocks, k, out);
}

namespace {

class RowSelector {
 public:
  /// Sets `bad_score` when a score is NaN. `split_keys`: share out the scoring of a row.
  RowSelector(const Context& context, const IndexSelectParams& p, bool split_keys,
              std::atomic<bool>& bad_score)
      : context_(context), p_(p), split_keys_(split_keys), bad_score_(bad_score) {}

  void select(size_t s, int64_t r) {
    const RowSpan& span = p_.spans[s];
    const int64_t visible = (span.first_position + r - span.first_row + 1) / p_.ratio;
    const RowQuery query = load_query(p_, r);
    const int64_t trace_columns = p_.scores.data == nullptr ? 0 : p_.scores.shape[1];
    if (p_.role == CandidateRole::user && trace_columns == 0) {
      score_candidates(s, r, visible, query);
    } else {
      score_all(s, std::max(visible, std::min(trace_columns, span.end_position() / p_.ratio)), query);
      if (trace_columns > 0) trace(r, trace_columns);
      scores_.resize(static_cast<size_t>(visible));
      gather(r, visible);
    }
    const int64_t topk = p_.picked.shape[1];
    elements<int32_t>(p_.num_picked)[r] = choose(entries_, topk, elements<int32_t>(p_.picked) + r * topk);
  }

 private:
  void score(size_t s, const RowQuery& query, int64_t begin, int64_t end, float* scores) {
    if (!score_range(context_, query, p_.keys[s], p_.queries.shape[2], begin, end, scores)) bad_score_ = true;
  }

  void score_all(size_t s, int64_t count, const RowQuery& query) {
    scores_.resize(static_cast<size_t>(count));
    const auto range = [&](int64_t begin, int64_t end) {
      score(s, query, begin, end, scores_.data() + begin);
    };
    if (split_keys_)
      context_.pool.parallel_for(count, 256, range);
    else
      range(0, count);
  }

  // Fills entries_ from scores_ (visible ones), writing or honouring the candidate blocks.
  void gather(int64_t r, int64_t visible) {
    entries_.clear();
    if (p_.role == CandidateRole::user) {
      for_candidate_blocks(r, visible, [&](int64_t begin, int64_t end) {
        for (int64_t j = begin; j < end; ++j)
          entries_.push_back({scores_[static_cast<size_t>(j)], static_cast<int32_t>(j)});
      });
      return;
    }
    for (int64_t j = 0; j < visible; ++j)
      entries_.push_back({scores_[static_cast<size_t>(j)], static_cast<int32_t>(j)});
    if (p_.role != CandidateRole::source) return;
    const int64_t k = p_.candidates.shape[1];
    elements<int32_t>(p_.num_candidates)[r] =
        choose_blocks(scores_, visible, p_.candidate_block_size, k, elements<int32_t>(p_.candidates) + r * k);
  }

  template <class Body>
  void for_candidate_blocks(int64_t r, int64_t visible, const Body& body) const {
    const int32_t* blocks = elements<int32_t>(p_.candidates) + r * p_.candidates.shape[1];
    const int64_t size = p_.candidate_block_size;
    for (int64_t b = 0; b < elements<int32_t>(p_.num_candidates)[r]; ++b)
      body(blocks[b] * size, std::min((blocks[b] + 1) * size, visible));
  }

  void score_candidates(size_t s, int64_t r, int64_t visible, const RowQuery& query) {
    entries_.clear();
    scores_.resize(static_cast<size_t>(p_.candidate_block_size));
    for_candidate_blocks(r, visible, [&](int64_t begin, int64_t end) {
      if (begin < end) score(s, query, begin, end, scores_.data());
      for (int64_t j = begin; j < end; ++j)
        entries_.push_back({scores_[static_cast<size_t>(j - begin)], static_cast<int32_t>(j)});
    });
  }

  void trace(int64_t r, int64_t columns) const {
    float* out = elements<float>(p_.scores) + r * columns;
    for (int64_t j = 0; j < columns; ++j)
      out[j] = j < static_cast<int64_t>(scores_.size()) ? scores_[static_cast<size_t>(j)] : unreachable;
  }

  const Context& context_;
  const IndexSelectParams& p_;
  bool split_keys_;
  std::atomic<bool>& bad_score_;
  std::vector<float> scores_;
  std::vector<Scored> entries_;
};

}  // namespace

Status index_select(const Context& context, const IndexSelectParams& p) {
  std::atomic<bool> bad_score{false};
  const bool few_rows = p.queries.shape[0] < 2 * context.pool.num_threads();
  for (size_t s = 0; s < p.spans.size(); ++s) {
    const RowSpan& span = p.spans[s];
    const auto rows = [&](int64_t begin, int64_t end) {
      RowSelector selector(context, p, few_rows, bad_score);
      for (int64_t r = begin; r < end; ++r) selector.select(s, span.first_row + r);
    };
    if (few_rows)
      rows(0, span.num_rows);
    else
      context.pool.parallel_for(span.num_rows, 1, rows);
  }
  if (bad_score)
    return fail(ErrorCode::format, "expected index scores, found NaN: the checkpoint is damaged");
  return {};
}

}  // namespace fathom::cpu
