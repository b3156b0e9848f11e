// Element by element: what the vision tower, the sum over experts and the pooling of groups need.
#include "backend/fast/simd/row_kernels.h"
#include "backend/fast/simd/vec.h"

namespace fathom::fast::FATHOM_ISA {
namespace {

void add(const bf16* y, int64_t n, bf16* x) {
  for_lanes(
      n, FATHOM_LANES { store_bf16(x + i, load_bf16(x + i, lanes) + load_bf16(y + i, lanes), lanes); });
}

void gated_silu(const bf16* gate, const bf16* up, int64_t n, bf16* out) {
  for_lanes(
      n, FATHOM_LANES {
        const f32x16 g = load_bf16(gate + i, lanes);
        const f32x16 silu = round_bf16(g / (splat(1.0f) + exp(splat(0.0f) - g)));
        store_bf16(out + i, silu * load_bf16(up + i, lanes), lanes);
      });
}

void gelu(int64_t n, bf16* x) {
  for_lanes(
      n, FATHOM_LANES {
        const f32x16 v = load_bf16(x + i, lanes);
        const f32x16 tail = splat(0.5f) * erfc_positive(abs(v) * splat(0x1.6a09e6p-1f));
        store_bf16(x + i, v * select(v < splat(0.0f), tail, splat(1.0f) - tail), lanes);
      });
}

void add_row(const bf16* row, int64_t n, float* to) {
  for_lanes(
      n, FATHOM_LANES { store(to + i, load(to + i, lanes) + load_bf16(row + i, lanes), lanes); });
}

void round_row(const float* from, int64_t n, bf16* out) {
  for_lanes(
      n, FATHOM_LANES { store_bf16(out + i, load(from + i, lanes), lanes); });
}

void sum_rows(const bf16* const* rows, int64_t count, int64_t n, bf16* out) {
  for_lanes(
      n, FATHOM_LANES {
        f32x16 total = splat(0.0f);
        for (int64_t r = 0; r < count; ++r) total += load_bf16(rows[r] + i, lanes);
        store_bf16(out + i, total, lanes);
      });
}

void pool_group(const float* const* kv, const float* const* score, int64_t ratio, int64_t n, bf16* out) {
  for_lanes(
      n, FATHOM_LANES {
        f32x16 largest = splat(-__builtin_inff());
        for (int64_t r = 0; r < ratio; ++r) largest = max(load(score[r] + i, lanes), largest);
        f32x16 total = splat(0.0f);
        f32x16 weighted = splat(0.0f);
        for (int64_t r = 0; r < ratio; ++r) {
          const f32x16 e = exp(load(score[r] + i, lanes) - largest);
          total += e;
          weighted += e * load(kv[r] + i, lanes);
        }
        store_bf16(out + i, weighted / total, lanes);
      });
}

}  // namespace

void add_element_kernels(RowKernels& to) {
  to.add = add;
  to.gated_silu = gated_silu;
  to.gelu = gelu;
  to.add_row = add_row;
  to.round_row = round_row;
  to.sum_rows = sum_rows;
  to.pool_group = pool_group;
}

}  // namespace fathom::fast::FATHOM_ISA
