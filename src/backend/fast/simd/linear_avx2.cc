// Linear kernels for AVX2 with FMA and F16C.
//
// A result is the sum, in a fixed tree, of 8 lanes; a lane adds up its four products of a block of 32
// columns, and then the blocks, each times its scale. One input row takes weights from memory through
// registers; more rows share a panel of unpacked weights, on which the same sums are formed.
#include <immintrin.h>

#include "backend/fast/simd/by_format.h"

#define FATHOM_INLINE [[maybe_unused, gnu::always_inline]] static inline

namespace fathom::fast::avx2 {
namespace {

constexpr int64_t block = 32;
constexpr int vectors = 4;     // of a block
constexpr int panel_rows = 4;  // weight rows worked on together
constexpr int nan_scale = 255;
constexpr int64_t prefetch_bytes = 2048;

template <WeightFormat format>
inline constexpr int64_t block_bytes = format == WeightFormat::fp4   ? block / 2
                                       : format == WeightFormat::fp8 ? block
                                                                     : 2 * block;

// ---- From stored codes to f32 ----

// What FP8 codes become is smaller by this factor: a half-precision number with the same bits has another
// bias.
constexpr float fp8_factor = 256.0f;

FATHOM_INLINE __m256 of_bf16(const uint16_t* from) {
  const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
}

// E4M3 codes in the upper bytes of words: sign, a zero, exponent and mantissa make a half-precision number,
// subnormals too.
FATHOM_INLINE void fp8_to_f32(__m128i codes, __m256* w) {
  const __m256i words = _mm256_slli_epi16(_mm256_cvtepu8_epi16(codes), 8);
  const __m256i halves = _mm256_and_si256(_mm256_srai_epi16(words, 1), _mm256_set1_epi16(-0x4001));
  w[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(halves));
  w[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1));
}

// E2M1 codes: the upper bytes of half-precision numbers whose lower ones are zero.
FATHOM_INLINE void fp4_to_f32(__m128i codes, __m256* w) {
  const __m128i upper = _mm_setr_epi8(0x00, 0x38, 0x3C, 0x3E, 0x40, 0x42, 0x44, 0x46, -0x80, -0x48, -0x44,
                                      -0x42, -0x40, -0x3E, -0x3C, -0x3A);
  const __m128i halves = _mm_shuffle_epi8(upper, codes);
  w[0] = _mm256_cvtph_ps(_mm_unpacklo_epi8(_mm_setzero_si128(), halves));
  w[1] = _mm256_cvtph_ps(_mm_unpackhi_epi8(_mm_setzero_si128(), halves));
}

// The 32 weights of a block in arranged order, without their scale. `largest`: of FP8 codes doubled; 254 is
// NaN.
template <WeightFormat format>
FATHOM_INLINE void load_block(const uint8_t* at, __m256* w, __m256i& largest) {
  if constexpr (format == WeightFormat::fp4) {
    const __m128i codes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i low = _mm_set1_epi8(15);
    fp4_to_f32(_mm_and_si128(codes, low), w);
    fp4_to_f32(_mm_and_si128(_mm_srli_epi16(codes, 4), low), w + 2);
  } else if constexpr (format == WeightFormat::fp8) {
    const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
    largest = _mm256_max_epu8(largest, _mm256_add_epi8(codes, codes));
    fp8_to_f32(_mm256_castsi256_si128(codes), w);
    fp8_to_f32(_mm256_extracti128_si256(codes, 1), w + 2);
  } else {
    for (int j = 0; j < vectors; ++j) w[j] = of_bf16(reinterpret_cast<const uint16_t*>(at) + 8 * j);
  }
}

// The last columns of a bf16 row, which need not be a whole block.
FATHOM_INLINE void load_tail(const uint8_t* at, int64_t columns, __m256* w) {
  alignas(32) uint16_t tail[block] = {};
  __builtin_memcpy(tail, at, static_cast<size_t>(2 * columns));
  for (int j = 0; j < vectors; ++j) w[j] = of_bf16(tail + 8 * j);
}

FATHOM_INLINE bool found_nan(__m256i largest) {
  const __m256i equal = _mm256_cmpeq_epi8(largest, _mm256_set1_epi8(-2));
  return _mm256_movemask_epi8(equal) != 0;
}

// A row's scales as f32. False when one is NaN.
template <WeightFormat format>
FATHOM_INLINE bool prepare_scales(const StoredMatrix& m, int64_t row, float* out) {
  const int64_t blocks = (m.in + block - 1) / block;
  bool numbers = true;
  if constexpr (format == WeightFormat::bf16) {
    for (int64_t b = 0; b < blocks; ++b) out[b] = 1;
  } else {
    const uint8_t* codes = m.scales + row / m.rows_per_scale * m.scale_stride;
    for (int64_t b = 0; b < blocks; ++b) {
      const uint32_t code = codes[b];
      numbers &= code != nan_scale;
      out[b] = __builtin_bit_cast(float, code == 0 ? 0x00400000u : code << 23);
    }
  }
  return numbers;
}

// ---- Sums ----

FATHOM_INLINE __m256 block_sum(const __m256* w, const __m256* x) {
  __m256 sum = _mm256_mul_ps(w[0], x[0]);
  for (int j = 1; j < vectors; ++j) sum = _mm256_fmadd_ps(w[j], x[j], sum);
  return sum;
}

template <WeightFormat format>
FATHOM_INLINE float reduce(__m256 lanes, __m256i largest) {
  if (format == WeightFormat::fp8 && found_nan(largest)) return __builtin_nanf("");
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps(lanes, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  const float sum = _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  return format == WeightFormat::fp8 ? sum * fp8_factor : sum;
}

// ---- Working memory ----

int64_t scales_of_row(int64_t in) { return (in / block + 16) / 8 * 8; }
int64_t panel_stride(int64_t in) { return arranged_columns(in) + 8; }  // rows must not share sets

int64_t panel_bytes(int64_t in) {
  return static_cast<int64_t>(sizeof(float)) * panel_rows * (scales_of_row(in) + panel_stride(in));
}

// For panel_rows weight rows: scales and unpacked weights.
struct Work {
  float* scales;
  int64_t scale_stride;
  float* panel;
  int64_t stride;

  Work(uint8_t* memory, int64_t in)
      : scales(reinterpret_cast<float*>(memory)),
        scale_stride(scales_of_row(in)),
        panel(scales + panel_rows * scale_stride),
        stride(panel_stride(in)) {}
};

// ---- One row ----

// One weight row of each of W streams, which are `length` rows long, times an input row.
template <WeightFormat format, int W>
FATHOM_INLINE void stream(const StoredMatrix& m, int64_t first, int64_t length, const Work& work,
                          const uint16_t* x, float* out) {
  const uint8_t* codes[W];
  __m256 sum[W];
  __m256i largest[W];
  for (int i = 0; i < W; ++i) {
    codes[i] = m.codes + (first + i * length) * m.code_stride;
    sum[i] = _mm256_setzero_ps();
    largest[i] = _mm256_setzero_si256();
  }
  const auto add = [&](int i, int64_t b, const __m256* w, const __m256* v) __attribute__((always_inline)) {
    sum[i] = _mm256_fmadd_ps(block_sum(w, v), _mm256_broadcast_ss(work.scales + i * work.scale_stride + b),
                             sum[i]);
  };
  const int64_t whole = m.in / block;
  __m256 w[vectors];
  __m256 v[vectors];
  for (int64_t b = 0; b < whole; ++b) {
    for (int j = 0; j < vectors; ++j) v[j] = of_bf16(x + b * block + 8 * j);
    for (int i = 0; i < W; ++i) {
      const uint8_t* at = codes[i] + b * block_bytes<format>;
      _mm_prefetch(at + prefetch_bytes, _MM_HINT_T0);
      load_block<format>(at, w, largest[i]);
      add(i, b, w, v);
    }
  }
  if (whole * block < m.in) {
    for (int j = 0; j < vectors; ++j) v[j] = of_bf16(x + whole * block + 8 * j);
    for (int i = 0; i < W; ++i) {
      load_tail(codes[i] + whole * block_bytes<format>, m.in - whole * block, w);
      add(i, whole, w, v);
    }
  }
  for (int i = 0; i < W; ++i) out[i * length] = reduce<format>(sum[i], largest[i]);
}

template <WeightFormat format, int W>
FATHOM_INLINE bool multiply_row(const StoredMatrix& m, int64_t first, int64_t num_out, const Work& work,
                                const uint16_t* x, float* out) {
  const int64_t length = num_out / W;
  bool numbers = true;
  for (int64_t o = 0; o < length; ++o) {
    for (int i = 0; i < W; ++i) {
      const int64_t row = first + i * length + o;
      if (o == 0 || (format != WeightFormat::bf16 && row % m.rows_per_scale == 0))
        numbers &= prepare_scales<format>(m, row, work.scales + i * work.scale_stride);
    }
    stream<format, W>(m, first + o, length, work, x, out + o);
  }
  return numbers;
}

// ---- Several rows ----

template <WeightFormat format>
FATHOM_INLINE __m256i unpack_row(const StoredMatrix& m, int64_t row, float* out) {
  const uint8_t* codes = m.codes + row * m.code_stride;
  __m256i largest = _mm256_setzero_si256();
  __m256 w[vectors];
  const int64_t whole = m.in / block;
  for (int64_t b = 0; b < whole; ++b) {
    load_block<format>(codes + b * block_bytes<format>, w, largest);
    for (int j = 0; j < vectors; ++j) _mm256_store_ps(out + b * block + 8 * j, w[j]);
  }
  if (whole * block < m.in) {
    load_tail(codes + whole * block_bytes<format>, m.in - whole * block, w);
    for (int j = 0; j < vectors; ++j) _mm256_store_ps(out + whole * block + 8 * j, w[j]);
  }
  return largest;
}

// W panel rows times R input rows.
template <WeightFormat format, int W, int R>
FATHOM_INLINE void panel_tile(const Work& work, int64_t blocks, const __m256i* largest, const uint16_t* x,
                              int64_t x_stride, float* out, int64_t out_stride) {
  __m256 sum[W][R];
  for (auto& row : sum)
    for (__m256& v : row) v = _mm256_setzero_ps();
  for (int64_t b = 0; b < blocks; ++b) {
    for (int r = 0; r < R; ++r) {
      __m256 v[vectors];
      for (int j = 0; j < vectors; ++j) v[j] = of_bf16(x + r * x_stride + b * block + 8 * j);
      for (int i = 0; i < W; ++i) {
        const float* row = work.panel + i * work.stride + b * block;
        __m256 w[vectors];
        for (int j = 0; j < vectors; ++j) w[j] = _mm256_load_ps(row + 8 * j);
        sum[i][r] = _mm256_fmadd_ps(block_sum(w, v),
                                    _mm256_broadcast_ss(work.scales + i * work.scale_stride + b), sum[i][r]);
      }
    }
  }
  for (int i = 0; i < W; ++i)
    for (int r = 0; r < R; ++r) out[r * out_stride + i] = reduce<format>(sum[i][r], largest[i]);
}

template <WeightFormat format, int W>
FATHOM_INLINE bool multiply_panel(const StoredMatrix& m, int64_t first, const Work& work,
                                  const ArrangedRows& x, float* out, int64_t out_stride) {
  __m256i largest[W];
  bool numbers = true;
  for (int i = 0; i < W; ++i) {
    numbers &= prepare_scales<format>(m, first + i, work.scales + i * work.scale_stride);
    largest[i] = unpack_row<format>(m, first + i, work.panel + i * work.stride);
  }
  const int64_t blocks = (m.in + block - 1) / block;
  int64_t r = 0;
  for (; r + 2 <= x.rows; r += 2)
    panel_tile<format, W, 2>(work, blocks, largest, x.data + r * x.block_stride, x.block_stride,
                             out + r * out_stride, out_stride);
  if (r < x.rows)
    panel_tile<format, W, 1>(work, blocks, largest, x.data + r * x.block_stride, x.block_stride,
                             out + r * out_stride, out_stride);
  return numbers;
}

// ---- The product ----

template <WeightFormat format>
bool multiply_format(const StoredMatrix& m, int64_t first, int64_t num_out, const ArrangedRows& x, float* out,
                     int64_t out_stride, uint8_t* memory) {
  const Work work(memory, m.in);
  bool numbers = true;
  int64_t o = 0;
  if (x.rows == 1) {
    o = num_out / panel_rows * panel_rows;
    numbers &= multiply_row<format, panel_rows>(m, first, o, work, x.data, out);
    numbers &= multiply_row<format, 1>(m, first + o, num_out - o, work, x.data, out + o);
    return numbers;
  }
  for (; o + panel_rows <= num_out; o += panel_rows)
    numbers &= multiply_panel<format, panel_rows>(m, first + o, work, x, out + o, out_stride);
  for (; o < num_out; ++o) numbers &= multiply_panel<format, 1>(m, first + o, work, x, out + o, out_stride);
  return numbers;
}

bool multiply(const StoredMatrix& m, int64_t first, int64_t num_out, const ArrangedRows& x, float* out,
              int64_t out_stride, uint8_t* memory) {
  return by_format(m.format, [&]<WeightFormat format>() {
    return multiply_format<format>(m, first, num_out, x, out, out_stride, memory);
  });
}

// A block's even columns come first in FP4, as its codes leave their bytes.
void arrange(WeightFormat format, const uint16_t* const* rows, int64_t, int64_t in, uint16_t* out) {
  const uint16_t* x = rows[0];
  if (format != WeightFormat::fp4) {
    __builtin_memcpy(out, x, static_cast<size_t>(2 * in));
  } else {
    for (int64_t k = 0; k < in; k += block)
      for (int64_t i = 0; i < block / 2; ++i) {
        out[k + i] = x[k + 2 * i];
        out[k + block / 2 + i] = x[k + 2 * i + 1];
      }
  }
  for (int64_t k = in; k < arranged_columns(in); ++k) out[k] = 0;
}

int64_t block_values(int64_t in) { return arranged_columns(in); }

}  // namespace

const LinearKernels linear = {1, 24, 96, arrange, multiply, panel_bytes, block_values};

}  // namespace fathom::fast::avx2
