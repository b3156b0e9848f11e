// FP8 E4M3 ("fn") and the power-of-two scale E8M0: bit-exact scalar conversions (spec 2, Number formats).
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

namespace fathom {

inline constexpr uint8_t e4m3_nan = 0x7F;
inline constexpr uint8_t e8m0_nan = 0xFF;
inline constexpr float e4m3_max = 448.0f;

/// Value of an E4M3 code: no infinities; 0x7F and 0xFF are NaN.
constexpr float e4m3_to_float(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
  const uint32_t exponent = (code >> 3) & 15u;
  const uint32_t mantissa = code & 7u;
  if ((code & 0x7Fu) == 0x7Fu) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 120) << 23) | (mantissa << 20));
}

/// Nearest E4M3 code, ties to even, saturating at 448; NaN gives NaN.
constexpr uint8_t float_to_e4m3(float v) {
  const uint32_t u = std::bit_cast<uint32_t>(v);
  const auto sign = static_cast<uint8_t>((u >> 24) & 0x80u);
  const uint32_t magnitude = u & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint8_t>(sign | e4m3_nan);
  if (magnitude >= std::bit_cast<uint32_t>(e4m3_max)) return static_cast<uint8_t>(sign | 0x7Eu);
  if (magnitude < std::bit_cast<uint32_t>(0x1p-6f)) {
    // Subnormal: a multiple of 2^-9. Adding 2^14 puts that step at the last mantissa bit of an f32, whose own
    // rounding is to nearest even; a carry into 8 is the smallest normal code.
    const float sum = std::bit_cast<float>(magnitude) + 0x1p14f;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(sum) & 0xFu));
  }
  const uint32_t rounded = magnitude + 0x7FFFFu + ((magnitude >> 20) & 1u);
  return static_cast<uint8_t>(sign | ((rounded >> 20) - (120u << 3)));
}

/// 2^(code - 127); 0xFF is NaN. Code 0 is the subnormal 2^-127.
constexpr float e8m0_to_float(uint8_t code) {
  if (code == e8m0_nan) return std::numeric_limits<float>::quiet_NaN();
  if (code == 0) return 0x1p-127f;
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}

/// All 256 E4M3 values, for loops over stored weights.
inline constexpr std::array<float, 256> e4m3_table = [] {
  std::array<float, 256> table{};
  for (int i = 0; i < 256; ++i) table[static_cast<size_t>(i)] = e4m3_to_float(static_cast<uint8_t>(i));
  return table;
}();

}  // namespace fathom
