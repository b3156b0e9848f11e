// RMS norm, rotary embedding and index queries (spec 1).
#include <vector>

#include "backend/cpu/kernels.h"
#include "tensor/quantize.h"
#include "tensor/weight.h"

namespace fathom::cpu {
namespace {

// Applies body(values as float [dim]) to every head of every row and stores bf16.
template <class Body>
void rotate_heads(const Context& context, const TensorRef& x, const TensorView& positions,
                  const TensorView& freqs, const Body& after_rope) {
  const int64_t heads = x.shape[1];
  const int64_t dim = x.shape[2];
  bf16* values = elements<bf16>(x);
  const int32_t* position = elements<int32_t>(positions);
  context.pool.parallel_for(x.shape[0], 1, [&](int64_t begin, int64_t end) {
    std::vector<float> head(static_cast<size_t>(dim));
    for (int64_t r = begin; r < end; ++r) {
      const Rotation rotation(position[r], freqs, false);
      for (int64_t h = 0; h < heads; ++h) {
        bf16* at = values + (r * heads + h) * dim;
        to_floats(at, dim, head.data());
        rotation.apply(head.data(), dim);
        after_rope(head.data(), dim);
        for (int64_t i = 0; i < dim; ++i) at[i] = to_bf16(head[static_cast<size_t>(i)]);
      }
    }
  });
}

}  // namespace

void rms_norm(const Context& context, const RmsNormParams& p) {
  const int64_t dim = p.in.shape[1];
  FATHOM_CHECK_EQ(p.weight.shape[0], dim);
  std::vector<float> weight(static_cast<size_t>(dim));
  load_floats(p.weight, 0, dim, weight.data());
  const bf16* in = elements<bf16>(p.in);
  bf16* out = elements<bf16>(p.out);
  context.pool.parallel_for(p.in.shape[0], 8, [&](int64_t begin, int64_t end) {
    std::vector<float> x(static_cast<size_t>(dim));
    for (int64_t r = begin; r < end; ++r) {
      to_floats(in + r * dim, dim, x.data());
      rms_norm_row(context, x.data(), weight.data(), dim, p.eps, out + r * dim);
    }
  });
}

void rope(const Context& context, const RopeParams& p) {
  rotate_heads(context, p.x, p.positions, p.freqs, [](float*, int64_t) {});
}

void index_query(const Context& context, const IndexQueryParams& p) {
  rotate_heads(context, p.x, p.positions, p.freqs,
               [](float* head, int64_t dim) { round_to_index_fp4_grid(head, dim); });
}

}  // namespace fathom::cpu
