// Attention over window keys and picked compressed keys in one softmax (spec 1, Attention).
#include <vector>

#include "backend/cpu/kernels.h"
#include "tensor/cache_layout.h"
#include "tensor/weight.h"

namespace fathom::cpu {
namespace {

// The keys row `r` of span `s` sees, unpacked: window positions ascending (in a block those before it, then
// its own), then picked groups ascending.
void gather_keys(const SparseAttentionParams& p, size_t s, int64_t r, Scratch& scratch,
                 std::vector<const float*>& keys) {
  const int64_t dim = p.q.shape[2];
  const RowSpan& span = p.spans[s];
  const int64_t window_bytes = window_record(dim).bytes();
  const int64_t compressed_bytes = compressed_record(dim).bytes();
  const int64_t position = span.first_position + r - span.first_row;
  const int64_t end = p.block ? span.end_position() : position + 1;
  const int64_t first = std::max<int64_t>(0, (p.block ? span.first_position : position + 1) - p.window_size);
  const int64_t num_window = end - first;
  const int64_t num_picked = p.compressed.empty() ? 0 : elements<int32_t>(p.num_picked)[r];
  const int64_t num_keys = num_window + num_picked;
  float* at = scratch.floats(Scratch::keys, num_keys * dim);
  keys.clear();
  for (int64_t k = 0; k < num_keys; ++k) keys.push_back(at + k * dim);
  for (int64_t t = first; t < end; ++t, at += dim) {
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

}  // namespace

void attend(const Context& context, const AttendParams& p, std::vector<double>& scores, float* out) {
  scores.resize(static_cast<size_t>(p.num_queries * p.num_keys));
  context.kernels.dots(p.queries, p.num_queries, p.keys, p.num_keys, p.dim, scores.data());
  const double scale = std::pow(static_cast<double>(p.dim), -0.5);
  std::vector<double> sum(static_cast<size_t>(p.dim));
  for (int64_t q = 0; q < p.num_queries; ++q) {
    double* weights = scores.data() + q * p.num_keys;
    double largest = -INFINITY;
    for (int64_t k = 0; k < p.num_keys; ++k) largest = std::max(largest, weights[k] *= scale);
    double total = 0;
    for (int64_t k = 0; k < p.num_keys; ++k) total += weights[k] = std::exp(weights[k] - largest);
    if (p.sinks != nullptr) total += std::exp(static_cast<double>(p.sinks[q]) - largest);
    std::fill(sum.begin(), sum.end(), 0.0);
    for (int64_t k = 0; k < p.num_keys; ++k)
      context.kernels.add_scaled(weights[k], p.values[k], p.dim, sum.data());
    for (int64_t i = 0; i < p.dim; ++i)
      out[q * p.dim + i] = to_float(to_bf16(sum[static_cast<size_t>(i)] / total));
  }
}

void sparse_attention(const Context& context, const SparseAttentionParams& p) {
  const int64_t rows = p.q.shape[0];
  const int64_t heads = p.q.shape[1];
  const int64_t dim = p.q.shape[2];
  const bf16* q = elements<bf16>(p.q);
  const int32_t* positions = elements<int32_t>(p.positions);
  bf16* out = elements<bf16>(p.out);
  std::vector<float> sinks(static_cast<size_t>(heads));
  load_floats(p.sink, 0, heads, sinks.data());
  std::vector<int32_t> span_of(static_cast<size_t>(rows));
  for (size_t s = 0; s < p.spans.size(); ++s)
    for (int64_t r = 0; r < p.spans[s].num_rows; ++r)
      span_of[static_cast<size_t>(p.spans[s].first_row + r)] = static_cast<int32_t>(s);

  // With few rows their heads are shared out too; each head is computed the same way either way.
  const int64_t parts =
      rows >= 2 * context.pool.num_threads() ? 1 : std::min<int64_t>(heads, context.pool.num_threads());
  context.pool.parallel_for_workers(rows * parts, 1, [&](int64_t begin, int64_t end, int worker) {
    Scratch& scratch = context.worker[static_cast<size_t>(worker)];
    float* queries = scratch.floats(Scratch::queries, heads * dim);
    float* o = scratch.floats(Scratch::attended, heads * dim);
    std::vector<const float*> keys;
    std::vector<const float*> query_rows(static_cast<size_t>(heads));
    for (int64_t h = 0; h < heads; ++h) query_rows[static_cast<size_t>(h)] = queries + h * dim;
    std::vector<double> scores;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t r = task / parts;
      const int64_t first_head = heads * (task % parts) / parts;
      const int64_t num_heads = heads * (task % parts + 1) / parts - first_head;
      gather_keys(p, static_cast<size_t>(span_of[static_cast<size_t>(r)]), r, scratch, keys);
      to_floats(q + (r * heads + first_head) * dim, num_heads * dim, queries);
      attend(context,
             {.queries = query_rows.data(),
              .num_queries = num_heads,
              .keys = keys.data(),
              .values = keys.data(),
              .num_keys = static_cast<int64_t>(keys.size()),
              .dim = dim,
              .sinks = sinks.data() + first_head},
             scores, o);
      const Rotation rotation(positions[r], p.freqs, true);
      for (int64_t h = 0; h < num_heads; ++h) rotation.apply(o + h * dim, dim);
      bf16* at = out + (r * heads + first_head) * dim;
      for (int64_t i = 0; i < num_heads * dim; ++i) at[i] = to_bf16(o[i]);
    }
  });
}

}  // namespace fathom::cpu
