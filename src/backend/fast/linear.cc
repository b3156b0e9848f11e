// Linear layers (spec 1, "Linear layers and their rounding").
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/fast/operations.h"
#include "backend/fast/product.h"
#include "backend/fast/weights.h"

namespace fathom::fast {

using cpu::elements;

std::vector<ArrangedRows> arrange_rows(const Context& context, const bf16* x, int64_t stride, int64_t rows,
                                       int64_t in, WeightFormat format, bool quantize, int64_t groups) {
  const int64_t block = context.linear.row_block;
  const int64_t values = context.linear.block_values(in);
  const int64_t blocks = num_blocks(context, rows);
  auto* out = context.scratch.take<uint16_t>(Scratch::input, groups * blocks * values);
  const int64_t grain = std::max<int64_t>(1, rows_per_item(in) / block);
  context.pool.parallel_for_workers(groups * blocks, grain, [&](int64_t begin, int64_t end, int worker) {
    auto* grid =
        context.worker[static_cast<size_t>(worker)].take<bf16>(Scratch::row, quantize ? block * in : 0);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t b = i % blocks;
      const bf16* part = x + i / blocks * in;
      for (int64_t r = b * block; quantize && r < std::min(rows, (b + 1) * block); ++r)
        context.rows.fp8_grid(part + r * stride, in, grid + r % block * in);
      const auto row_of = [&](int64_t r) { return quantize ? grid + r % block * in : part + r * stride; };
      arrange_block(context, format, b, rows, in, row_of, out + i * values);
    }
  });
  std::vector<ArrangedRows> arranged;
  for (int64_t g = 0; g < groups; ++g) arranged.push_back({out + g * blocks * values, values, rows});
  return arranged;
}

int64_t outs_per_task(const Context& context, const StoredMatrix& weight, int64_t num_out, int64_t rows) {
  const int64_t workers = context.pool.num_threads();
  const auto shared_by = [&](int64_t tasks, int64_t multiple) {
    const int64_t share = (num_out + tasks - 1) / tasks;
    return std::max<int64_t>(1, (share + multiple - 1) / multiple) * multiple;
  };
  if (rows > few_rows) {
    const int64_t most = context.linear.most_rows;
    const int64_t rounds = std::max<int64_t>(1, (num_out + workers * most - 1) / (workers * most));
    return std::min(most, shared_by(workers * rounds, context.linear.panel_rows));
  }
  constexpr int64_t together = 16;  // what kernels stream
  const int64_t most = stream_bytes / weight.code_stride / together * together;
  return std::max(2 * together, std::min(most, shared_by(2 * workers, together)));
}

Status linear(const Context& context, const LinearParams& p) {
  const int64_t rows = p.in.shape[0];
  const int64_t in = p.weight.in();
  const int64_t out = p.weight.out();
  FATHOM_CHECK_EQ(p.in.shape[1], in);
  FATHOM_CHECK_EQ(p.out.shape[0], rows);
  FATHOM_CHECK_EQ(p.out.shape[1], out);
  cpu::will_need(p.weight);
  const StoredMatrix weight = stored_matrix(p.weight);
  const std::vector<ArrangedRows> x =
      arrange_rows(context, elements<bf16>(p.in), in, rows, in, weight.format, p.weight.quantized());
  bool numbers = true;
  if (p.out.dtype == DType::f32) {
    FATHOM_CHECK(p.bias.empty());
    float* y = elements<float>(p.out);
    numbers = product(context, weight, out, x, [&](int64_t first, int64_t n, const float* sums) {
      for (int64_t r = 0; r < rows; ++r) std::copy_n(sums + r * n, n, y + r * out + first);
    });
  } else {
    const float* bias = nullptr;
    if (!p.bias.empty()) {
      FATHOM_CHECK_EQ(p.bias.shape[0], out);
      bias = floats_of(context, p.bias, out, Scratch::weights);
    }
    bf16* y = elements<bf16>(p.out);
    numbers = product(context, weight, out, x, [&](int64_t first, int64_t n, float* sums) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; bias != nullptr && i < n; ++i) sums[r * n + i] += bias[first + i];
        context.rows.round_row(sums + r * n, n, y + r * out + first);
      }
    });
  }
  if (!numbers) return cpu::nan_scale(p.weight);
  return {};
}

Status grouped_linear(const Context& context, const GroupedLinearParams& p) {
  const int64_t rows = p.in.shape[0];
  const int64_t in = p.weight.in();
  const int64_t out = p.weight.out();
  FATHOM_CHECK_EQ(p.in.shape[1], in * p.groups);
  FATHOM_CHECK_EQ(p.out.shape[1], out);
  if (rows == 0) return {};
  cpu::will_need(p.weight);
  const StoredMatrix weight = stored_matrix(p.weight);
  bf16* y = elements<bf16>(p.out);
  const std::vector<ArrangedRows> x =
      arrange_rows(context, elements<bf16>(p.in), in * p.groups, rows, in, weight.format, false, p.groups);
  const bool numbers = product(context, weight, out, x, [&](int64_t first, int64_t n, const float* sums) {
    for (int64_t r = 0; r < rows; ++r) context.rows.round_row(sums + r * n, n, y + r * out + first);
  });
  if (!numbers) return cpu::nan_scale(p.weight);
  return {};
}

}  // namespace fathom::fast
