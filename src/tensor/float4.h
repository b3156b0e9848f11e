// FP4 E2M1: bit-exact scalar conversions and packing (spec 2, Number formats).
#pragma once

#include <array>
#include <cstdint>

namespace fathom {

inline constexpr float e2m1_max = 6.0f;

/// The 16 values by code; bit 3 is the sign.
inline constexpr std::array<float, 16> e2m1_table = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                                     -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

constexpr float e2m1_to_float(uint8_t code) { return e2m1_table[code & 15u]; }

/// Nearest E2M1 code, ties to the even code, saturating at 6; NaN gives 6, since the format has none.
constexpr uint8_t float_to_e2m1(float v) {
  const bool negative = v < 0 || (v == 0 && 1 / v < 0);
  const float a = negative ? -v : v;
  // Between codes c and c+1 the midpoint goes to the even one of them.
  uint8_t code = 7;
  if (a <= 0.25f)
    code = 0;
  else if (a < 0.75f)
    code = 1;
  else if (a <= 1.25f)
    code = 2;
  else if (a < 1.75f)
    code = 3;
  else if (a <= 2.5f)
    code = 4;
  else if (a < 3.5f)
    code = 5;
  else if (a <= 5.0f)
    code = 6;
  return static_cast<uint8_t>(code | (negative ? 8u : 0u));
}

/// Two codes in a byte: the even column in the low nibble.
constexpr uint8_t pack_e2m1(uint8_t even, uint8_t odd) {
  return static_cast<uint8_t>((even & 15u) | (odd << 4));
}

}  // namespace fathom
