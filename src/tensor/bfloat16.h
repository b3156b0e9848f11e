// bfloat16 and half precision: bit-exact scalar conversions (spec 2, Number formats).
#pragma once

#include <bit>
#include <cstdint>

namespace fathom {

/// A stored bfloat16. Only a format: arithmetic happens in float or double.
struct bf16 {
  uint16_t bits = 0;
  friend constexpr bool operator==(bf16, bf16) = default;
};
static_assert(sizeof(bf16) == 2);

constexpr float to_float(bf16 v) { return std::bit_cast<float>(static_cast<uint32_t>(v.bits) << 16); }

/// Nearest, ties to even. A NaN stays a NaN; a value past the largest finite one becomes infinite, so that
/// an overflow is seen at the logits instead of passing as a number.
constexpr bf16 to_bf16(float v) {
  const uint32_t u = std::bit_cast<uint32_t>(v);
  if ((u & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16)};
}

/// A double reduction's result: rounded to f32, then to bf16 (spec 1, Exactness).
constexpr bf16 to_bf16(double v) { return to_bf16(static_cast<float>(v)); }

/// float rounded to bfloat16 and back.
constexpr float round_bf16(float v) { return to_float(to_bf16(v)); }

/// IEEE half precision to float, subnormals and NaN included.
constexpr float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
  const uint32_t exponent = (h >> 10) & 0x1Fu;
  const uint32_t mantissa = h & 0x3FFu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

}  // namespace fathom
