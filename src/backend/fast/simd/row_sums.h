// Sums over a row in f32, in an order that is the row's own: lane j of accumulator a takes the elements
// congruent to 16 a + j modulo 64.
#pragma once

#include "backend/fast/simd/vec.h"

namespace fathom::fast::FATHOM_ISA {

/// The sum of term(i, lanes) over n elements. The term: FATHOM_LANES { return .. }; it must be 0 in the lanes
/// that a short load leaves 0.
template <class Term>
FATHOM_SIMD f32x16 sum_lanes(int64_t n, const Term& term) {
  f32x16 a = splat(0.0f);
  f32x16 b = a;
  f32x16 c = a;
  f32x16 d = a;
  int64_t k = 0;
  for (; k + 64 <= n; k += 64) {
    a += term(k, AllLanes{});
    b += term(k + 16, AllLanes{});
    c += term(k + 32, AllLanes{});
    d += term(k + 48, AllLanes{});
  }
  for (; k + 16 <= n; k += 16) a += term(k, AllLanes{});
  if (k < n) b += term(k, FirstLanes{n - k});
  return (a + b) + (c + d);
}

/// Squares of bf16 numbers may leave the range of f32: then once more, slowly.
FATHOM_SIMD double sum_of_squares(const bf16* x, int64_t n) {
  const float fast = sum(sum_lanes(
      n, FATHOM_LANES {
        const f32x16 v = load_bf16(x + i, lanes);
        return v * v;
      }));
  if (fast <= 0x1p120f) return static_cast<double>(fast);
  double slow = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = static_cast<uint32_t>(x[i].bits) << 16;
    float v;
    __builtin_memcpy(&v, &bits, sizeof(v));
    slow += static_cast<double>(v) * static_cast<double>(v);
  }
  return slow;
}

/// 1 / sqrt(mean(x^2) + eps), `squares` being the sum of x^2 over n elements.
FATHOM_SIMD float inverse_rms(double squares, int64_t n, double eps) {
  return static_cast<float>(1.0 / __builtin_sqrt(squares / static_cast<double>(n) + eps));
}

}  // namespace fathom::fast::FATHOM_ISA
