// Stored weight matrices and the reading of their rows as float.
//
// A plain weight is F64, F32, F16 or BF16; a quantized one is E4M3 or packed E2M1 codes with E8M0 scales
// (spec 2). Data may be unaligned: files are mapped and used in place.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "tensor/bfloat16.h"
#include "tensor/float4.h"
#include "tensor/float8.h"
#include "tensor/view.h"

namespace fathom {

/// How many rows and columns of a weight share one scale.
struct BlockShape {
  int64_t rows = 0;
  int64_t cols = 0;
};

inline constexpr BlockShape fp8_weight_block{32, 32};
inline constexpr BlockShape fp4_weight_block{1, 32};
inline constexpr BlockShape engram_table_block{1, 32};

/// A matrix [out, in]. `scale` is empty for a plain weight, else [ceil(out / block.rows), ceil(in /
/// block.cols)].
struct Weight {
  TensorView data;
  TensorView scale;
  BlockShape block;

  bool quantized() const { return !scale.empty(); }
  int64_t out() const { return data.shape[0]; }
  int64_t in() const { return data.shape[1] * (data.dtype == DType::e2m1x2 ? 2 : 1); }
};

/// Element `i` (flat) of a float tensor, as float.
inline float load_float(const TensorView& t, int64_t i) {
  const std::byte* at = t.data + i * dtype_bytes(t.dtype);
  switch (t.dtype) {
    case DType::bf16: {
      bf16 v;
      std::memcpy(&v, at, sizeof(v));
      return to_float(v);
    }
    case DType::f32: {
      float v;
      std::memcpy(&v, at, sizeof(v));
      return v;
    }
    case DType::f16: {
      uint16_t v;
      std::memcpy(&v, at, sizeof(v));
      return half_to_float(v);
    }
    case DType::f64: {
      double v;
      std::memcpy(&v, at, sizeof(v));
      return static_cast<float>(v);
    }
    default:
      break;
  }
  FATHOM_CHECK(is_float(t.dtype));
  return 0;
}

/// Elements [begin, begin + n) (flat) of a float tensor.
inline void load_floats(const TensorView& t, int64_t begin, int64_t n, float* out) {
  if (t.dtype == DType::f32) {
    std::memcpy(out, t.data + begin * 4, static_cast<size_t>(n) * 4);
    return;
  }
  if (t.dtype == DType::bf16) {
    const std::byte* at = t.data + begin * 2;
    for (int64_t i = 0; i < n; ++i) {
      uint16_t v;
      std::memcpy(&v, at + i * 2, 2);
      out[i] = to_float(bf16{v});
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) out[i] = load_float(t, begin + i);
}

/// Row `row` of a weight, dequantized: [in] values, exact in bf16 for quantized weights. False when a scale
/// that the row needs is NaN (E8M0 0xFF); `out` is then unspecified.
[[nodiscard]] inline bool load_row(const Weight& w, int64_t row, float* out) {
  const int64_t in = w.in();
  if (!w.quantized()) {
    load_floats(w.data, row * in, in, out);
    return true;
  }
  const auto* scales = reinterpret_cast<const uint8_t*>(w.scale.data) + row / w.block.rows * w.scale.shape[1];
  const auto* codes = reinterpret_cast<const uint8_t*>(w.data.data) + row * w.data.shape[1];
  for (int64_t begin = 0; begin < in; begin += w.block.cols) {
    const int64_t end = begin + w.block.cols < in ? begin + w.block.cols : in;
    const uint8_t code = scales[begin / w.block.cols];
    if (code == e8m0_nan) return false;
    const float scale = e8m0_to_float(code);
    if (w.data.dtype == DType::e4m3) {
      for (int64_t i = begin; i < end; ++i) out[i] = e4m3_table[codes[i]] * scale;
    } else {
      for (int64_t i = begin; i < end; i += 2) {
        out[i] = e2m1_table[codes[i / 2] & 15u] * scale;
        out[i + 1] = e2m1_table[codes[i / 2] >> 4] * scale;
      }
    }
  }
  return true;
}

}  // namespace fathom
