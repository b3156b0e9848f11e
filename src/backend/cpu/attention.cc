// Attention over window keys and picked compressed keys in one softmax (spec 1, Attention).
#include <vector>

#include "backend/cpu/kernels.h"
#include "tensor/cache_layout.h"
#include "tensor/weight.h"

namespace fathom::cpu {
namespace {

struct RowKeys {
  std::vector<float> values;  // [keys, head_dim]
  std::vector<const float*> pointers;
};

// The keys row `r` of span `s` sees: window positions ascending, then picked groups ascending.
void gather_keys(const SparseAttentionParams& p, size_t s, int64_t r, RowKeys& keys) {
  const int64_t dim = p.q.shape[2];
  const RowSpan& span = p.spans[s];
  const int64_t window_bytes = window_record(dim).bytes();
  const int64_t compressed_bytes = compressed_record(dim).bytes();
  const int64_t position = span.first_position + r - span.first_row;
  const int64_t first = std::max<int64_t>(0, position - p.window_size + 1);
  const int64_t num_window = position - first + 1;
  const int64_t num_picked = p.compressed.empty() ? 0 : elements<int32_t>(p.num_picked)[r];
  const int64_t num_keys = num_window + num_picked;
  keys.values.resize(static_cast<size_t>(num_keys * dim));
  keys.pointers.resize(static_cast<size_t>(num_keys));
  float* at = keys.values.data();
  for (int64_t k = 0; k < num_keys; ++k) keys.pointers[static_cast<size_t>(k)] = at + k * dim;
  for (int64_t t = first; t <= position; ++t, at += dim) {
    const std::byte* record =
        t >= span.first_position
            ? p.window_records.data + (span.first_row + t - span.first_position) * window_bytes
            : p.rings[s].data + t % p.rings[s].slots * window_bytes;
    unpack_window(record, dim, at);
  }
  if (num_picked == 0) return;
  const int32_t* picked = elements<int32_t>(p.picked) + r * p.picked.shape[1];
  for (int64_t k = 0; k < num_picked; ++k, at += dim)
    unpack_compressed(p.compressed[s].at(picked[k], compressed_bytes), dim, at);
}

// One head: scores (f64 [keys]) become weights; returns the softmax denominator, sink included.
double softmax_with_sink(double* scores, int64_t n, double sink) {
  double largest = -INFINITY;
  for (int64_t k = 0; k < n; ++k) largest = std::max(largest, scores[k]);
  double sum = 0;
  for (int64_t k = 0; k < n; ++k) sum += scores[k] = std::exp(scores[k] - largest);
  return sum + std::exp(sink - largest);
}

}  // namespace

void sparse_attention(const Context& context, const SparseAttentionParams& p) {
  const int64_t rows = p.q.shape[0];
  const int64_t heads = p.q.shape[1];
  const int64_t dim = p.q.shape[2];
  const double scale = std::pow(static_cast<double>(dim), -0.5);
  const bf16* q = elements<bf16>(p.q);
  const int32_t* positions = elements<int32_t>(p.positions);
  bf16* out = elements<bf16>(p.out);
  std::vector<int32_t> span_of(static_cast<size_t>(rows));
  for (size_t s = 0; s < p.spans.size(); ++s)
    for (int64_t r = 0; r < p.spans[s].num_rows; ++r)
      span_of[static_cast<size_t>(p.spans[s].first_row + r)] = static_cast<int32_t>(s);

  // With few rows their heads are shared out too; each head is computed the same way either way.
  const int64_t parts =
      rows >= 2 * context.pool.num_threads() ? 1 : std::min<int64_t>(heads, context.pool.num_threads());
  context.pool.parallel_for(rows * parts, 1, [&](int64_t begin, int64_t end) {
    RowKeys keys;
    std::vector<float> queries(static_cast<size_t>(heads * dim));
    std::vector<const float*> query_rows(static_cast<size_t>(heads));
    std::vector<double> scores;
    std::vector<double> sum(static_cast<size_t>(dim));
    std::vector<float> o(static_cast<size_t>(dim));
    for (int64_t task = begin; task < end; ++task) {
      const int64_t r = task / parts;
      const int64_t first_head = heads * (task % parts) / parts;
      const int64_t num_heads = heads * (task % parts + 1) / parts - first_head;
      gather_keys(p, static_cast<size_t>(span_of[static_cast<size_t>(r)]), r, keys);
      const auto num_keys = static_cast<int64_t>(keys.pointers.size());
      for (int64_t h = 0; h < num_heads; ++h) {
        query_rows[static_cast<size_t>(h)] = queries.data() + h * dim;
        to_floats(q + (r * heads + first_head + h) * dim, dim, queries.data() + h * dim);
      }
      scores.resize(static_cast<size_t>(num_heads * num_keys));
      context.kernels.dots(query_rows.data(), num_heads, keys.pointers.data(), num_keys, dim, scores.data());
      const Rotation rotation(positions[r], p.freqs, true);
      for (int64_t h = 0; h < num_heads; ++h) {
        double* weights = scores.data() + h * num_keys;
        for (int64_t k = 0; k < num_keys; ++k) weights[k] *= scale;
        const double sink = static_cast<double>(load_float(p.sink, first_head + h));
        const double denominator = softmax_with_sink(weights, num_keys, sink);
        std::fill(sum.begin(), sum.end(), 0.0);
        for (int64_t k = 0; k < num_keys; ++k)
          context.kernels.add_scaled(weights[k], keys.pointers[static_cast<size_t>(k)], dim, sum.data());
        for (int64_t i = 0; i < dim; ++i)
          o[static_cast<size_t>(i)] = to_float(to_bf16(sum[static_cast<size_t>(i)] / denominator));
        rotation.apply(o.data(), dim);
        bf16* at = out + (r * heads + first_head + h) * dim;
        for (int64_t i = 0; i < dim; ++i) at[i] = to_bf16(o[static_cast<size_t>(i)]);
      }
    }
  });
}

}  // namespace fathom::cpu
