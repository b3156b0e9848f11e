// What the vision tower does row by row (spec 5).
#include <cmath>

#include "backend/cpu/context.h"
#include "backend/fast/operations.h"

namespace fathom::fast {

using cpu::elements;

void add(const Context& context, const AddParams& p) {
  const int64_t dim = p.x.shape[1];
  FATHOM_CHECK(p.y.shape == p.x.shape);
  const bf16* y = elements<bf16>(p.y);
  bf16* x = elements<bf16>(p.x);
  context.pool.parallel_for(p.x.shape[0], near_rows_per_item(2 * dim), [&](int64_t begin, int64_t end) {
    context.rows.add(y + begin * dim, (end - begin) * dim, x + begin * dim);
  });
}

void gated_silu(const Context& context, const GatedSiluParams& p) {
  const int64_t dim = p.out.shape[1];
  FATHOM_CHECK_EQ(p.gate_up.shape[0], p.out.shape[0]);
  FATHOM_CHECK_EQ(p.gate_up.shape[1], 2 * dim);
  const bf16* gate_up = elements<bf16>(p.gate_up);
  bf16* out = elements<bf16>(p.out);
  context.pool.parallel_for(p.out.shape[0], near_rows_per_item(4 * dim), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      context.rows.gated_silu(gate_up + r * 2 * dim, gate_up + (r * 2 + 1) * dim, dim, out + r * dim);
  });
}

void gelu(const Context& context, const GeluParams& p) {
  const int64_t dim = p.x.shape[1];
  bf16* x = elements<bf16>(p.x);
  context.pool.parallel_for(p.x.shape[0], near_rows_per_item(4 * dim), [&](int64_t begin, int64_t end) {
    context.rows.gelu((end - begin) * dim, x + begin * dim);
  });
}

void patch_rope(const Context& context, const PatchRopeParams& p) {
  const int64_t heads = p.qkv.shape[2];
  const int64_t half = p.qkv.shape[3] / 2;
  FATHOM_CHECK_EQ(p.qkv.shape[1], 3);
  FATHOM_CHECK_EQ(p.qkv.shape[3] % 4, 0);
  bf16* qkv = elements<bf16>(p.qkv);
  auto* freqs = context.scratch.take<double>(Scratch::weights, half / 2);
  for (int64_t i = 0; i < half / 2; ++i)
    freqs[i] = 1.0 / std::pow(p.theta, static_cast<double>(2 * i) / static_cast<double>(half));
  const int64_t width = 2 * half * heads;
  context.pool.parallel_for_workers(
      p.qkv.shape[0], near_rows_per_item(2 * width), [&](int64_t begin, int64_t end, int worker) {
        auto* angles = context.worker[static_cast<size_t>(worker)].take<double>(Scratch::rotation, 2 * half);
        auto* cosine = reinterpret_cast<float*>(angles + half);
        for (int64_t r = begin; r < end; ++r) {
          const int64_t patch = p.first_patch + r;
          for (int64_t i = 0; i < half / 2; ++i) {
            angles[i] = static_cast<double>(patch / p.patch_cols) * freqs[i];
            angles[half / 2 + i] = static_cast<double>(patch % p.patch_cols) * freqs[i];
          }
          context.rows.cos_sin(angles, half, cosine, cosine + half);
          // The heads of q and of k stand one after the other.
          context.rows.rotate_halves(qkv + r * 3 * width, 2 * heads, half, cosine, cosine + half);
        }
      });
}

namespace {

// One cell, channel by channel: out[c, i] = patch i's value of channel c.
void gather_cell(const GatherCellsParams& p, int64_t first_row, int64_t first_col, bf16* out) {
  constexpr bf16 zero{};
  const int64_t dim = p.patches.shape[1];
  const int64_t area = p.ratio * p.ratio;
  const bf16* from[max_cell];
  int64_t step[max_cell];
  for (int64_t i = 0; i < area; ++i) {
    const int64_t row = first_row + i / p.ratio;
    const int64_t col = first_col + i % p.ratio;
    const bool inside = row < p.patches.shape[0] / p.patch_cols && col < p.patch_cols;
    from[i] = inside ? elements<bf16>(p.patches) + (row * p.patch_cols + col) * dim : &zero;
    step[i] = inside ? 1 : 0;
  }
  for (int64_t c = 0; c < dim; ++c)
    for (int64_t i = 0; i < area; ++i) *out++ = from[i][c * step[i]];
}

}  // namespace

void gather_cells(const Context& context, const GatherCellsParams& p) {
  const int64_t cell_cols = (p.patch_cols + p.ratio - 1) / p.ratio;
  const int64_t width = p.patches.shape[1] * p.ratio * p.ratio;
  FATHOM_CHECK_LE(p.ratio * p.ratio, max_cell);
  FATHOM_CHECK_EQ(p.out.shape[1], width);
  bf16* out = elements<bf16>(p.out);
  context.pool.parallel_for(p.out.shape[0], near_rows_per_item(4 * width), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t cell = p.first_cell + r;
      gather_cell(p, cell / cell_cols * p.ratio, cell % cell_cols * p.ratio, out + r * width);
    }
  });
}

}  // namespace fathom::fast
