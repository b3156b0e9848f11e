// The three quantizers of the model, block by block (spec 1, "The three quantizers").
//
// Each writes codes and scales; the dequantized value code * scale is exact in bf16, so the packed
// form loses nothing. Inputs are bf16 values held as float.
//
// What is not finite stays visible. E4M3 has a NaN, and infinity makes an E8M0 scale so large that its values
// are infinite again; E2M1 has neither, so a block that its scale could not tell of gets a NaN for a scale.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "tensor/float4.h"
#include "tensor/float8.h"

namespace fathom {

inline constexpr int64_t fp8_block = 32;        // window KV and the inputs of FP8 and FP4 linears
inline constexpr int64_t index_fp4_block = 32;  // index queries and keys
inline constexpr int64_t kv_fp4_block = 16;     // compressed KV

/// ceil(log2(v)) of a positive float, read off its bits.
constexpr int ceil_log2(float v) {
  const uint32_t u = std::bit_cast<uint32_t>(v);
  return static_cast<int>((u >> 23) & 0xFFu) - 127 + ((u & 0x7FFFFFu) != 0 ? 1 : 0);
}

inline float block_amax(const float* x, int64_t n, float floor) {
  float amax = floor;
  for (int64_t i = 0; i < n; ++i) amax = std::max(amax, std::fabs(x[i]));
  return amax;
}

inline bool has_nan(const float* x, int64_t n) {
  return std::any_of(x, x + n, [](float v) { return std::isnan(v); });
}
inline bool is_finite(const float* x, int64_t n) {
  return std::all_of(x, x + n, [](float v) { return std::isfinite(v); });
}

/// One block to E4M3 with a power-of-two scale; returns the scale's E8M0 code.
inline uint8_t quantize_fp8_block(const float* x, int64_t n, uint8_t* codes) {
  const int exponent = ceil_log2(block_amax(x, n, 1e-4f) * (1.0f / 448.0f));
  const auto scale_code = static_cast<uint8_t>(std::clamp(exponent + 127, 0, 254));
  const float scale = e8m0_to_float(scale_code);
  for (int64_t i = 0; i < n; ++i) codes[i] = float_to_e4m3(x[i] / scale);
  return scale_code;
}

/// One block to E2M1 codes (one per byte) with a power-of-two scale; returns the scale's E8M0 code.
inline uint8_t quantize_fp4_block_e8m0(const float* x, int64_t n, uint8_t* codes) {
  const int exponent = ceil_log2(block_amax(x, n, 6 * 0x1p-126f) * (1.0f / 6.0f));
  const uint8_t scale_code =
      has_nan(x, n) ? e8m0_nan : static_cast<uint8_t>(std::clamp(exponent + 127, 0, 254));
  const float scale = e8m0_to_float(scale_code);
  for (int64_t i = 0; i < n; ++i) codes[i] = float_to_e2m1(x[i] / scale);
  return scale_code;
}

/// One block to E2M1 codes (one per byte) with an E4M3 scale; returns the scale's E4M3 code.
inline uint8_t quantize_fp4_block_e4m3(const float* x, int64_t n, uint8_t* codes) {
  const uint8_t scale_code = is_finite(x, n) ? float_to_e4m3(block_amax(x, n, 6 * 0x1p-9f) / 6.0f) : e4m3_nan;
  const float scale = e4m3_to_float(scale_code);
  for (int64_t i = 0; i < n; ++i) codes[i] = float_to_e2m1(x[i] / scale);
  return scale_code;
}

/// Rounds `n` values (a multiple of 32) to the FP8 grid in place: what an FP8 or FP4 linear sees of its
/// input.
inline void round_to_fp8_grid(float* x, int64_t n) {
  uint8_t codes[fp8_block];
  for (int64_t b = 0; b < n; b += fp8_block) {
    const float scale = e8m0_to_float(quantize_fp8_block(x + b, fp8_block, codes));
    for (int64_t i = 0; i < fp8_block; ++i) x[b + i] = e4m3_to_float(codes[i]) * scale;
  }
}

/// Rounds `n` values (a multiple of 32) to the index FP4 grid in place.
inline void round_to_index_fp4_grid(float* x, int64_t n) {
  uint8_t codes[index_fp4_block];
  for (int64_t b = 0; b < n; b += index_fp4_block) {
    const float scale = e8m0_to_float(quantize_fp4_block_e8m0(x + b, index_fp4_block, codes));
    for (int64_t i = 0; i < index_fp4_block; ++i) x[b + i] = e2m1_to_float(codes[i]) * scale;
  }
}

}  // namespace fathom
