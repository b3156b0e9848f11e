// Element by element, as the vision tower needs it (spec 5).
#include <numbers>

#include "backend/cpu/kernels.h"

namespace fathom::cpu {

void add(const Context& context, const AddParams& p) {
  const int64_t dim = p.x.shape[1];
  FATHOM_CHECK(p.y.shape == p.x.shape);
  const bf16* y = elements<bf16>(p.y);
  bf16* x = elements<bf16>(p.x);
  context.pool.parallel_for(p.x.shape[0], 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * dim; i < end * dim; ++i) x[i] = to_bf16(to_float(x[i]) + to_float(y[i]));
  });
}

void gated_silu(const Context& context, const GatedSiluParams& p) {
  const int64_t dim = p.out.shape[1];
  FATHOM_CHECK_EQ(p.gate_up.shape[0], p.out.shape[0]);
  FATHOM_CHECK_EQ(p.gate_up.shape[1], 2 * dim);
  const bf16* gate_up = elements<bf16>(p.gate_up);
  bf16* out = elements<bf16>(p.out);
  context.pool.parallel_for(p.out.shape[0], 4, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const bf16* gate = gate_up + r * 2 * dim;
      const bf16* up = gate + dim;
      for (int64_t i = 0; i < dim; ++i) {
        const auto g = static_cast<double>(to_float(gate[i]));
        const float silu = to_float(to_bf16(g / (1.0 + std::exp(-g))));
        out[r * dim + i] = to_bf16(silu * to_float(up[i]));
      }
    }
  });
}

void gelu(const Context& context, const GeluParams& p) {
  const int64_t dim = p.x.shape[1];
  bf16* x = elements<bf16>(p.x);
  context.pool.parallel_for(p.x.shape[0], 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * dim; i < end * dim; ++i) {
      const auto v = static_cast<double>(to_float(x[i]));
      x[i] = to_bf16(v * 0.5 * (1.0 + std::erf(v / std::numbers::sqrt2)));
    }
  });
}

}  // namespace fathom::cpu
