// The three quantizers on vectors: the codes, scales and values of tensor/quantize.h exactly.
#pragma once

#include "backend/fast/simd/vec.h"

namespace fathom::fast::FATHOM_ISA {

/// The E8M0 code of a block with this amax (its floor applied): 2^ceil(log2(amax * inverse_max)).
FATHOM_SIMD uint32_t e8m0_code(float amax, float inverse_max) {
  const float product = amax * inverse_max;
  uint32_t u;
  __builtin_memcpy(&u, &product, sizeof(u));
  const uint32_t code = ((u >> 23) & 0xFFu) + ((u & 0x7FFFFFu) != 0 ? 1 : 0);
  return code < 254 ? code : 254;
}

/// 2^(code - 127) for codes 0 to 254.
FATHOM_SIMD float power_of_code(uint32_t code) {
  const uint32_t u = code == 0 ? 0x00400000u : code << 23;
  float v;
  __builtin_memcpy(&v, &u, sizeof(v));
  return v;
}
/// 2^(127 - code): multiplying by it is dividing by the scale, exactly.
FATHOM_SIMD float inverse_of_code(uint32_t code) { return power_of_code(254 - code); }

/// The largest magnitude in both vectors and of `floor`; NaN left out.
FATHOM_SIMD float amax_of(f32x16 a, f32x16 b, float floor) {
  return max_lane(max(abs(b), max(abs(a), splat(floor))));
}

/// The scale of a block of E2M1 numbers: NaN when the block holds one, since they cannot.
struct IndexScale {
  uint32_t code;
  float value, inverse;  // multiplying by `inverse` is dividing by `value`, exactly
};
FATHOM_SIMD IndexScale index_scale_of(f32x16 a, f32x16 b) {
  const f32x16 bad = select((a == a) & (b == b), splat(0.0f), splat(1.0f));
  if (max_lane(bad) != 0) return {0xFF, __builtin_nanf(""), __builtin_nanf("")};
  const uint32_t code = e8m0_code(amax_of(a, b, 6 * 0x1p-126f), 1.0f / 6.0f);
  return {code, power_of_code(code), inverse_of_code(code)};
}

/// E4M3 and E2M1 numbers nearest to x / scale, as code and as value, by lane.
struct Quantized {
  u32x16 code;
  f32x16 value;
};

FATHOM_SIMD Quantized to_e4m3(f32x16 x) {
  const u32x16 u = bits_of(x);
  const u32x16 sign = u & splat_u32(0x80000000u);
  const f32x16 magnitude = min(float_of_bits(u ^ sign), splat(448.0f));
  const u32x16 m = bits_of(magnitude);
  // Subnormal: multiples of 2^-9, the last mantissa bit of an f32 near 2^14.
  const f32x16 raised = magnitude + splat(0x1p14f);
  const i32x16 subnormal = magnitude < splat(0x1p-6f);
  const u32x16 rounded = (m + splat_u32(0x7FFFFu) + ((m >> 20) & splat_u32(1))) & splat_u32(0xFFF00000u);
  const f32x16 value = select(subnormal, raised - splat(0x1p14f), float_of_bits(rounded));
  u32x16 code = select(subnormal, bits_of(raised) & splat_u32(0xFu), (rounded >> 20) - splat_u32(120u << 3));
  code = select(x == x, code, splat_u32(0x7Fu));
  const u32x16 bits = select(x == x, bits_of(value) | sign, splat_u32(0x7FC00000u));
  return {code | (sign >> 24), float_of_bits(bits)};
}

FATHOM_SIMD Quantized to_e2m1(f32x16 x) {
  const u32x16 u = bits_of(x);
  // NaN becomes a positive 6: the format has none.
  const u32x16 sign = select(x == x, u & splat_u32(0x80000000u), splat_u32(0));
  const f32x16 magnitude = min(float_of_bits(u & splat_u32(0x7FFFFFFFu)), splat(6.0f));
  const u32x16 m = bits_of(magnitude);
  // Below 1 the numbers are multiples of 0.5, the last mantissa bit of an f32 near 2^22.
  const f32x16 raised = magnitude + splat(0x1p22f);
  const i32x16 small = magnitude < splat(1.0f);
  const u32x16 rounded = (m + splat_u32(0x1FFFFFu) + ((m >> 22) & splat_u32(1))) & splat_u32(0xFFC00000u);
  const f32x16 value = select(small, raised - splat(0x1p22f), float_of_bits(rounded));
  const u32x16 code = select(small, bits_of(raised) & splat_u32(3), (rounded >> 22) - splat_u32(126u << 1));
  return {code | (sign >> 28), float_of_bits(bits_of(value) | sign)};
}

/// A block of 32 on the FP8 grid. The values are exact in bf16, so storing them may cut instead of round.
FATHOM_SIMD Twice<f32x16> fp8_grid_of(f32x16 a, f32x16 b) {
  const uint32_t code = e8m0_code(amax_of(a, b, 1e-4f), 1.0f / 448.0f);
  const f32x16 inverse = splat(inverse_of_code(code));
  const f32x16 scale_of_block = splat(power_of_code(code));
  return {to_e4m3(a * inverse).value * scale_of_block, to_e4m3(b * inverse).value * scale_of_block};
}

FATHOM_SIMD void store_bf16_exact(bf16* to, f32x16 v) {
  store_u16(reinterpret_cast<uint16_t*>(to), bits_of(v) >> 16);
}

/// Pairs of neighbours: 32 bf16 numbers as those of even and those of odd place.
FATHOM_SIMD Twice<f32x16> load_pairs(const bf16* from) {
  const u32x16 u = load_u32(reinterpret_cast<const uint32_t*>(from));
  return {float_of_bits(u << 16), float_of_bits(u & splat_u32(0xFFFF0000u))};
}

}  // namespace fathom::fast::FATHOM_ISA
