// Functions of simd/vec.h. Relative errors are stated against the exact value of the f32 argument; they hold
// with and without FMA.
#pragma once

#include "backend/fast/simd/lanes_memory.h"

namespace fathom::fast::FATHOM_ISA {

/// p * 2^n for whole numbers |n| <= 252, rounded once for 1 <= p < 2 or so; n is NaN only
/// where p is.
FATHOM_SIMD f32x16 scale(f32x16 p, f32x16 n) {
#if FATHOM_NATIVE_BYTES == 64
  return (f32x16)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
  // In two factors, neither of which leaves the normal numbers.
  const i32x16 whole = to_i32(select(n == n, n, splat(0.0f)));
  const i32x16 half = whole >> 1;
  const auto power = [](i32x16 e) __attribute__((always_inline)) {
    return float_of_bits(bits_of(e + splat_i32(127)) << 23);
  };
  return (p * power(half)) * power(whole - half);
#endif
}

/// e^x: within 0.9 ulp with FMA, 1.2 without, subnormal results included; +-inf as they should be, NaN stays
/// NaN.
FATHOM_SIMD f32x16 exp(f32x16 x) {
  // Past these the result is inf or 0 whatever the argument. NaN passes the comparisons.
  f32x16 y = select(x > splat(105.0f), splat(105.0f), x);
  y = select(y < splat(-105.0f), splat(-105.0f), y);
  const f32x16 magic = splat(0x1.8p23f);  // makes a sum a whole number
  const f32x16 n = (y * splat(0x1.715476p0f) + magic) - magic;
  // ln 2 in two parts, the first so short that n times it is exact.
  const f32x16 r = (y - n * splat(0x1.62e4p-1f)) - n * splat(0x1.7f7d1cp-20f);
  f32x16 p = splat(1.37805939e-3f);
  p = p * r + splat(8.37312452e-3f);
  p = p * r + splat(4.16695364e-2f);
  p = p * r + splat(1.66664720e-1f);
  p = p * r + splat(4.99999851e-1f);
  p = p * r + splat(1.0f);
  p = p * r + splat(1.0f);
  return scale(p, n);
}

/// 1 / (1 + e^-x): within 2.5 ulp; 0 where e^-x is past the largest float (the true value is subnormal).
FATHOM_SIMD f32x16 sigmoid(f32x16 x) { return splat(1.0f) / (splat(1.0f) + exp(splat(0.0f) - x)); }

/// log(1 + t) for 0 <= t <= 1.
FATHOM_SIMD f32x16 log1p_unit(f32x16 t) {
  // 2 atanh(s) of s = t / (2 + t) <= 1/3, by its series.
  const f32x16 s = t / (splat(2.0f) + t);
  const f32x16 z = s * s;
  f32x16 p = splat(1.0f / 15);
  constexpr float divisors[] = {13, 11, 9, 7, 5, 3};
  for (float divisor : divisors) p = p * z + splat(1.0f / divisor);
  return (s + s) + (s + s) * (z * p);
}

/// sqrt(log(1 + e^x)), x itself past 20 in place of the logarithm: within 2 ulp.
FATHOM_SIMD f32x16 sqrt_softplus(f32x16 x) {
  const f32x16 positive = select(x < splat(0.0f), splat(0.0f), x);
  const f32x16 softplus = positive + log1p_unit(exp(splat(0.0f) - abs(x)));
  const f32x16 root = sqrt(select(x > splat(20.0f), x, softplus));
  // Where e^x is small the logarithm is e^x itself, which may be too small for a float when its root is not.
  return select(x < splat(-17.0f), exp(splat(0.5f) * x), root);
}

/// 1 - erf(x) for x >= 0: within 1e-5 of itself where it is a normal number. (The Chebyshev fit of Numerical
/// Recipes, section 6.2.)
FATHOM_SIMD f32x16 erfc_positive(f32x16 x) {
  const f32x16 t = splat(1.0f) / (splat(1.0f) + splat(0.5f) * x);
  f32x16 p = splat(0.17087277f);
  constexpr float coefficients[] = {-0.82215223f, 1.48851587f, -1.13520398f, 0.27886807f, -0.18628806f,
                                    0.09678418f,  0.37409196f, 1.00002368f,  -1.26551223f};
  for (float c : coefficients) p = p * t + splat(c);
  return t * exp(p - x * x);
}

}  // namespace fathom::fast::FATHOM_ISA
