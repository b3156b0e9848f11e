// Engram's gated values (spec 3, Write-back).
#include <cmath>

#include "backend/cpu/context.h"
#include "backend/fast/operations.h"
#include "backend/fast/weights.h"

namespace fathom::fast {

using cpu::elements;

namespace {

struct Sums {
  double dot = 0, h_squares = 0, key_squares = 0;
};

Sums sums_of(const Context& context, const bf16* h, const bf16* key, const float* qk, int64_t dim) {
  float fast[3];
  context.rows.engram_sums(h, key, qk, dim, fast);
  constexpr float large = 0x1p120f;
  if (std::fabs(fast[0]) <= large && fast[1] <= large && fast[2] <= large)
    return {static_cast<double>(fast[0]), static_cast<double>(fast[1]), static_cast<double>(fast[2])};
  Sums slow;  // out of the range of f32
  for (int64_t i = 0; i < dim; ++i) {
    const auto a = static_cast<double>(to_float(h[i]));
    const auto b = static_cast<double>(to_float(key[i]));
    slow.dot += a * static_cast<double>(qk[i]) * b;
    slow.h_squares += a * a;
    slow.key_squares += b * b;
  }
  return slow;
}

}  // namespace

void engram_write(const Context& context, const EngramWriteParams& p) {
  const int64_t hc = p.stream.shape[1];
  const int64_t dim = p.stream.shape[2];
  const bf16* kv = elements<bf16>(p.kv);
  bf16* stream = elements<bf16>(p.stream);
  const uint8_t* dead = p.dead_rows.empty() ? nullptr : elements<uint8_t>(p.dead_rows);
  auto* qk = context.scratch.take<float>(Scratch::products, hc * dim);
  context.rows.multiply(floats_of(context, p.q_weight, hc * dim, Scratch::weights),
                        floats_of(context, p.k_weight, hc * dim, Scratch::more_weights), hc * dim, qk);
  const auto n = static_cast<double>(dim);
  context.pool.parallel_for(
      p.stream.shape[0], near_rows_per_item(3 * hc * dim), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          if (dead != nullptr && dead[r]) continue;
          const bf16* keys = kv + r * (hc + 1) * dim;
          for (int64_t c = 0; c < hc; ++c) {
            bf16* h = stream + (r * hc + c) * dim;
            const Sums sums = sums_of(context, h, keys + c * dim, qk + c * dim, dim);
            const double dot = sums.dot / std::sqrt(sums.h_squares / n + p.norm_eps) /
                               std::sqrt(sums.key_squares / n + p.norm_eps) / std::sqrt(n);
            const double gate = cpu::sigmoid(std::copysign(std::sqrt(std::max(std::fabs(dot), 1e-6)), dot));
            context.rows.add_scaled(keys + hc * dim, static_cast<float>(gate), dim, h);
          }
        }
      });
}

}  // namespace fathom::fast
