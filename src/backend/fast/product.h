// Input rows made ready for the linear kernels, and the sharing out of a product over the pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <vector>

#include "backend/fast/context.h"
#include "backend/fast/linear_kernels.h"

namespace fathom::fast {

/// How many blocks `rows` rows make.
inline int64_t num_blocks(const Context& context, int64_t rows) {
  return (rows + context.linear.row_block - 1) / context.linear.row_block;
}

/// Arranges block `b` of `all` rows of `in` bf16 values each, row_of(r), for weights of `format`.
template <class RowOf>
void arrange_block(const Context& context, WeightFormat format, int64_t b, int64_t all, int64_t in,
                   const RowOf& row_of, uint16_t* out) {
  const int64_t width = std::min(all, context.linear.row_block);
  const uint16_t* rows[largest_row_block] = {};
  for (int64_t r = 0; r < width && b * width + r < all; ++r)
    rows[r] = reinterpret_cast<const uint16_t*>(row_of(b * width + r));
  context.linear.arrange(format, rows, width, in, out);
}

/// bf16 rows, `stride` apart, for one weight format: rounded to the FP8 grid when `quantize` (spec 1, Linear
/// layers), and arranged. A row has `groups` parts of `in` values, which are arranged one by one. The memory
/// is the operation's scratch, slot `input`.
std::vector<ArrangedRows> arrange_rows(const Context&, const bf16* x, int64_t stride, int64_t rows,
                                       int64_t in, WeightFormat format, bool quantize, int64_t groups = 1);

/// Up to so many rows a product is a stream of weights.
inline constexpr int64_t few_rows = 8;

/// How many weight rows a task takes, so that there is something to share out and a panel is worth its
/// unpacking, or a stream of weights its beginning: what a task of few rows reads at most.
inline constexpr int64_t stream_bytes = int64_t{3} << 19;
int64_t outs_per_task(const Context&, const StoredMatrix& weight, int64_t num_out, int64_t rows);

/// A worker's panel and room for results of `rows` x `outs`.
struct ProductMemory {
  uint8_t* panel;
  float* sums;
};
inline ProductMemory product_memory(const Context& context, int worker, int64_t in, int64_t rows,
                                    int64_t outs) {
  Scratch& scratch = context.worker[static_cast<size_t>(worker)];
  return {scratch.take<uint8_t>(Scratch::panel, context.linear.panel_bytes(in)),
          scratch.take<float>(Scratch::sums, rows * outs)};
}

/// Calls store(first output, outputs, sums [rows, outputs]) for all of [0, num_out), which are equal parts
/// for the `groups`; from all workers. False when a scale was NaN.
template <class Store>
bool product(const Context& context, const StoredMatrix& weight, int64_t num_out,
             const std::vector<ArrangedRows>& groups, const Store& store) {
  std::atomic<bool> numbers{true};
  const int64_t rows = groups[0].rows;
  const int64_t group_out = num_out / static_cast<int64_t>(groups.size());
  const int64_t outs =
      std::min(outs_per_task(context, weight, num_out, rows), std::max<int64_t>(group_out, 1));
  const int64_t tasks = (group_out + outs - 1) / outs;  // of a group
  const auto task = [&](int64_t group, int64_t begin, int worker) {
    const int64_t n = std::min(outs, group_out - begin);
    const int64_t first = group * group_out + begin;
    const ProductMemory memory = product_memory(context, worker, weight.in, rows, n);
    if (!context.linear.multiply(weight, first, n, groups[static_cast<size_t>(group)], memory.sums, n,
                                 memory.panel))
      numbers = false;
    store(first, n, memory.sums);
  };
  context.pool.parallel_for_workers(tasks * static_cast<int64_t>(groups.size()), 1,
                                    [&](int64_t begin, int64_t end, int worker) {
                                      for (int64_t i = begin; i < end; ++i)
                                        task(i / tasks, i % tasks * outs, worker);
                                    });
  return numbers;
}

}  // namespace fathom::fast
