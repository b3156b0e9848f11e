// Linear kernels in plain vectors, for processors without BF16 products.
//
// A weight row is unpacked to f32 once; a result is the sum, in a fixed tree, of 16 lanes that each add their
// columns in ascending order.
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

FATHOM_SIMD u32x16 load_u8(const uint8_t* from) {
  uint16_t wide[16];
  for (int i = 0; i < 16; ++i) wide[i] = from[i];
  return load_u16(wide);
}

// E4M3 to f32. Subnormals take a way of their own: as f32 subnormals they would be slow.
FATHOM_SIMD f32x16 e4m3_values(u32x16 code) {
  const u32x16 magnitude = code & splat_u32(127);
  const f32x16 normal = float_of_bits((magnitude << 20) + splat_u32(120u << 23));
  const f32x16 small = to_f32(signed_of(magnitude)) * splat(0x1p-9f);
  const f32x16 value = select(signed_of(magnitude) < splat_i32(8), small, normal);
  const f32x16 number = select(signed_of(magnitude) == splat_i32(127), splat(__builtin_nanf("")), value);
  return float_of_bits(bits_of(number) | ((code & splat_u32(128)) << 24));
}

// E2M1 to f32: 0, 0.5, 1, 1.5, 2, 3, 4, 6.
FATHOM_SIMD f32x16 e2m1_values(u32x16 code) {
  const u32x16 magnitude = code & splat_u32(7);
  const f32x16 normal = float_of_bits((magnitude << 22) + splat_u32(126u << 23));
  const f32x16 small = to_f32(signed_of(magnitude)) * splat(0.5f);
  const f32x16 value = select(signed_of(magnitude) < splat_i32(2), small, normal);
  return float_of_bits(bits_of(value) | ((code & splat_u32(8)) << 28));
}

// 32 columns that share a scale. An FP4 block's even columns come first, then its odd ones.
FATHOM_SIMD void unpack_fp8_block(const uint8_t* codes, f32x16 scale, float* out) {
  store(out, e4m3_values(load_u8(codes)) * scale);
  store(out + 16, e4m3_values(load_u8(codes + 16)) * scale);
}
FATHOM_SIMD void unpack_fp4_block(const uint8_t* codes, f32x16 scale, float* out) {
  const u32x16 pairs = load_u8(codes);
  store(out, e2m1_values(pairs & splat_u32(15)) * scale);
  store(out + 16, e2m1_values(pairs >> 4) * scale);
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
    const f32x16 scale = splat(scale_value(scales[b]));
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

}  // namespace

const LinearKernels linear = {1, arrange, multiply, panel_bytes};

}  // namespace fathom::fast::FATHOM_ISA
