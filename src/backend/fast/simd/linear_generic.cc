// Linear kernels in plain vectors, for processors without better ones.
//
// A weight row is unpacked to f32 once, by table; a result is the sum, in a fixed tree, of 16 lanes that each
// add their columns in ascending order.
#include "backend/fast/simd/linear_kernels.h"
#include "backend/fast/simd/vec.h"

namespace fathom::fast::FATHOM_ISA {
namespace {

constexpr int64_t panel_rows = 4;
constexpr int64_t tile_r = 2;
constexpr uint8_t nan_scale = 255;

FATHOM_SIMD float scale_value(uint8_t code) {
  return __builtin_bit_cast(float, code == 0 ? 0x00400000u : static_cast<uint32_t>(code) << 23);
}

struct Tables {
  float fp8[256];  // E4M3
  float fp4[16];   // E2M1
};

// `exponent` and `mantissa` of a format with so many mantissa bits and this bias.
constexpr float number(bool negative, int exponent, int mantissa, int mantissa_bits, int bias) {
  float value = static_cast<float>(exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits));
  for (int i = bias + mantissa_bits - (exponent == 0 ? 1 : exponent); i > 0; --i) value *= 0.5f;
  for (int i = bias + mantissa_bits - (exponent == 0 ? 1 : exponent); i < 0; ++i) value *= 2;
  return negative ? -value : value;
}

constexpr Tables make_tables() {
  Tables t{};
  for (int c = 0; c < 256; ++c)
    t.fp8[c] = (c & 127) == 127 ? __builtin_nanf("") : number(c >= 128, c >> 3 & 15, c & 7, 3, 7);
  for (int c = 0; c < 16; ++c) t.fp4[c] = number(c >= 8, c >> 1 & 3, c & 1, 1, 1);
  return t;
}

constexpr Tables tables = make_tables();

// 32 columns that share a scale. An FP4 block's even columns come first, then its odd ones.
FATHOM_SIMD void unpack_fp8_block(const uint8_t* codes, float scale, float* out) {
  for (int i = 0; i < 32; ++i) out[i] = tables.fp8[codes[i]] * scale;
}
FATHOM_SIMD void unpack_fp4_block(const uint8_t* codes, float scale, float* out) {
  for (int i = 0; i < 16; ++i) {
    out[i] = tables.fp4[codes[i] & 15] * scale;
    out[16 + i] = tables.fp4[codes[i] >> 4] * scale;
  }
}

// One weight row as f32, zeros up to arranged_columns. False when a scale is NaN.
bool unpack_row(const StoredMatrix& m, int64_t row, float* out) {
  const uint8_t* codes = m.codes + row * m.code_stride;
  for (int64_t k = m.in / 32 * 32; k < arranged_columns(m.in); k += 16) store(out + k, splat(0.0f));
  if (m.format == WeightFormat::bf16) {
    const auto* values = reinterpret_cast<const bf16*>(codes);
    for_lanes(
        m.in, FATHOM_LANES { store(out + i, load_bf16(values + i, lanes), lanes); });
    return true;
  }
  const uint8_t* scales = m.scales + row / m.rows_per_scale * m.scale_stride;
  bool numbers = true;
  for (int64_t b = 0; b < m.in / 32; ++b) {
    numbers &= scales[b] != nan_scale;
    const float scale = scale_value(scales[b]);
    if (m.format == WeightFormat::fp8)
      unpack_fp8_block(codes + b * 32, scale, out + b * 32);
    else
      unpack_fp4_block(codes + b * 16, scale, out + b * 32);
  }
  return numbers;
}

template <int W, int R>
FATHOM_SIMD void tile(const float* panel, int64_t columns, const uint16_t* x, int64_t x_stride, float* out,
                      int64_t out_stride) {
  f32x16 sums[R][W];
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < W; ++i) sums[r][i] = splat(0.0f);
  for (int64_t k = 0; k < columns; k += 16) {
    for (int r = 0; r < R; ++r) {
      const f32x16 v = load_bf16(reinterpret_cast<const bf16*>(x + r * x_stride + k));
      for (int i = 0; i < W; ++i) sums[r][i] += v * load(panel + i * columns + k);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < W; ++i) out[r * out_stride + i] = sum(sums[r][i]);
}

template <int W>
FATHOM_SIMD void strips(const float* panel, int64_t columns, const ArrangedRows& x, float* out,
                        int64_t out_stride) {
  int64_t r = 0;
  for (; r + tile_r <= x.rows; r += tile_r)
    tile<W, tile_r>(panel, columns, x.data + r * x.block_stride, x.block_stride, out + r * out_stride,
                    out_stride);
  for (; r < x.rows; ++r)
    tile<W, 1>(panel, columns, x.data + r * x.block_stride, x.block_stride, out + r * out_stride, out_stride);
}

bool multiply(const StoredMatrix& m, int64_t first, int64_t num_out, const ArrangedRows& x, float* out,
              int64_t out_stride, uint8_t* memory) {
  auto* panel = reinterpret_cast<float*>(memory);
  const int64_t columns = arranged_columns(m.in);
  bool numbers = true;
  for (int64_t o = 0; o < num_out; o += panel_rows) {
    const int64_t count = num_out - o < panel_rows ? num_out - o : panel_rows;
    for (int64_t i = 0; i < count; ++i) numbers &= unpack_row(m, first + o + i, panel + i * columns);
    if (count == panel_rows) {
      strips<panel_rows>(panel, columns, x, out + o, out_stride);
    } else {
      for (int64_t i = 0; i < count; ++i) strips<1>(panel + i * columns, columns, x, out + o + i, out_stride);
    }
  }
  return numbers;
}

int64_t panel_bytes(int64_t in) {
  return panel_rows * arranged_columns(in) * static_cast<int64_t>(sizeof(float));
}

void arrange(WeightFormat format, const uint16_t* const* rows, int64_t, int64_t in, uint16_t* out) {
  const uint16_t* x = rows[0];
  for (int64_t k = 0; k < in; ++k) {
    const int64_t block = k / 32 * 32;
    const int64_t at = format == WeightFormat::fp4 ? block + (k - block) / 2 + (k % 2) * 16 : k;
    out[at] = x[k];
  }
  for (int64_t k = in; k < arranged_columns(in); ++k) out[k] = 0;
}

int64_t block_values(int64_t in) { return arranged_columns(in); }

}  // namespace

const LinearKernels linear = {1, 24, 96, arrange, multiply, panel_bytes, block_values};

}  // namespace fathom::fast::FATHOM_ISA
