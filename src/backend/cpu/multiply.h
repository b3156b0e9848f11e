// The matrix product under every linear of the exact path.
#pragma once

#include <atomic>

#include "backend/cpu/context.h"
#include "backend/cpu/kernels.h"

namespace fathom::cpu {

inline constexpr int64_t tile_out = 8;   // weight rows unpacked at a time
inline constexpr int64_t tile_rows = 4;  // input rows per pass over them

template <class Store>
Status multiply(const Context& context, const float* x, int64_t rows, int64_t in_stride, const Weight& weight,
                int64_t first_out, int64_t num_out, const Store& store) {
  const int64_t in = weight.in();
  std::atomic<bool> bad_scale{false};
  const auto tile = [&](int64_t begin, int64_t outs, float* unpacked) {
    const float* w[tile_out];
    for (int64_t o = 0; o < outs; ++o) {
      w[o] = unpacked + o * in;
      if (!load_row(weight, first_out + begin + o, unpacked + o * in)) bad_scale = true;
    }
    double sums[tile_rows * tile_out];
    for (int64_t r = 0; r < rows; r += tile_rows) {
      const int64_t count = std::min(tile_rows, rows - r);
      const float* inputs[tile_rows];
      for (int64_t i = 0; i < count; ++i) inputs[i] = x + (r + i) * in_stride;
      context.kernels.dots(inputs, count, w, outs, in, sums);
      for (int64_t i = 0; i < count; ++i)
        for (int64_t o = 0; o < outs; ++o) store(r + i, begin + o, sums[i * outs + o]);
    }
  };
  // Sharing out less work than this costs more than doing it.
  constexpr int64_t worth_sharing = 1 << 16;
  const int64_t tiles = (num_out + tile_out - 1) / tile_out;
  const int64_t grain = rows * num_out * in < worth_sharing ? tiles : 1;
  context.pool.parallel_for_workers(tiles, grain, [&](int64_t first, int64_t last, int worker) {
    float* unpacked = context.worker[static_cast<size_t>(worker)].floats(Scratch::weights, tile_out * in);
    for (int64_t t = first; t < last; ++t)
      tile(t * tile_out, std::min(tile_out, num_out - t * tile_out), unpacked);
  });
  if (bad_scale) return nan_scale(weight);
  return {};
}

}  // namespace fathom::cpu
