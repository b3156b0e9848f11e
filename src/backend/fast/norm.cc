// RMS norm (spec 1).
#include "backend/cpu/context.h"
#include "backend/fast/operations.h"
#include "backend/fast/weights.h"

namespace fathom::fast {

using cpu::elements;

void rms_norm(const Context& context, const RmsNormParams& p) {
  const int64_t dim = p.in.shape[1];
  FATHOM_CHECK_EQ(p.weight.shape[0], dim);
  const float* weight = floats_of(context, p.weight, dim, Scratch::weights);
  const bf16* in = elements<bf16>(p.in);
  bf16* out = elements<bf16>(p.out);
  context.pool.parallel_for(p.in.shape[0], near_rows_per_item(dim), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      context.rows.rms_norm(in + r * dim, weight, dim, p.eps, out + r * dim);
  });
}

}  // namespace fathom::fast
