// The matrix product under every linear of the exact path.
#pragma once

#include <atomic>

#include "backend/cpu/context.h"
#include "backend/cpu/kernels.h"

namespace fathom::cpu {

template <class Store>
Status multiply(const Context& context, const float* x, int64_t rows, int64_t in_stride, const Weight& weight,
                int64_t first_out, int64_t num_out, const Store& store) {
  constexpr int64_t tile_out = 8;   // weight rows unpacked at a time
  constexpr int64_t tile_rows = 4;  // input rows per pass over them
  const int64_t in = weight.in();
  std::atomic<bool> bad_scale{false};
  context.pool.parallel_for_workers(num_out, tile_out, [&](int64_t begin, int64_t end, int worker) {
    float* unpacked = context.worker[static_cast<size_t>(worker)].floats(Scratch::weights, tile_out * in);
    const float* w[tile_out];
    for (int64_t o = begin; o < end; ++o) {
      float* row = unpacked + (o - begin) * in;
      if (!load_row(weight, first_out + o, row)) bad_scale = true;
      w[o - begin] = row;
    }
    double sums[tile_rows * tile_out];
    const int64_t outs = end - begin;
    for (int64_t r = 0; r < rows; r += tile_rows) {
      const int64_t count = std::min(tile_rows, rows - r);
      const float* inputs[tile_rows];
      for (int64_t i = 0; i < count; ++i) inputs[i] = x + (r + i) * in_stride;
      context.kernels.dots(inputs, count, w, outs, in, sums);
      for (int64_t i = 0; i < count; ++i)
        for (int64_t o = 0; o < outs; ++o) store(r + i, begin + o, sums[i * outs + o]);
    }
  });
  if (bad_scale) return nan_scale(weight);
  return {};
}

}  // namespace fathom::cpu
