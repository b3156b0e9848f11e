// Norms of rows.
#include "backend/fast/simd/row_kernels.h"
#include "backend/fast/simd/row_sums.h"

namespace fathom::fast::FATHOM_ISA {
namespace {

void to_floats(const bf16* in, int64_t n, float* out) {
  for_lanes(
      n, FATHOM_LANES { store(out + i, load_bf16(in + i, lanes), lanes); });
}

void multiply(const float* a, const float* b, int64_t n, float* out) {
  for_lanes(
      n, FATHOM_LANES { store(out + i, load(a + i, lanes) * load(b + i, lanes), lanes); });
}

void rms_norm(const bf16* x, const float* weight, int64_t n, double eps, bf16* out) {
  const f32x16 r = splat(inverse_rms(sum_of_squares(x, n), n, eps));
  for_lanes(
      n,
      FATHOM_LANES { store_bf16(out + i, load(weight + i, lanes) * (load_bf16(x + i, lanes) * r), lanes); });
}

}  // namespace

void add_norm_kernels(RowKernels& to) {
  to.to_floats = to_floats;
  to.multiply = multiply;
  to.rms_norm = rms_norm;
}

}  // namespace fathom::fast::FATHOM_ISA
