// Linear kernels for AVX-512 with VBMI and BF16.
//
// A result is the sum, in a fixed tree, of 16 lanes; a lane adds its column pairs in arranged order
// (VDPBF16PS). With few rows weights go from memory through registers to the sums; with more they are
// unpacked to a panel of bf16 rows first, which all input rows then use from the caches.
#include <immintrin.h>

#include "backend/fast/simd/linear_kernels.h"

#define FATHOM_INLINE [[maybe_unused, gnu::always_inline]] static inline

namespace fathom::fast::avx512 {
namespace {

// Codes are looked up as bf16 times 2^64, then the exponent is lowered with unsigned saturation: zero stays
// zero. A scale code above `largest_scale` would have to raise it and takes the plain way.
constexpr int base_exponent = 64;
constexpr int largest_scale = 127 + base_exponent;
constexpr int nan_scale = 255;

struct Tables {
  alignas(64) uint16_t fp4[32];      // bf16 of an E2M1 code, twice
  alignas(64) uint8_t fp8_low[128];  // low and high byte of the bf16 of an E4M3 magnitude
  alignas(64) uint8_t fp8_high[128];
};

constexpr uint16_t bf16_bits(int exponent, int mantissa7) {
  return static_cast<uint16_t>((exponent + 127 + base_exponent) << 7 | mantissa7);
}

constexpr Tables make_tables() {
  Tables t{};
  constexpr uint16_t magnitudes[8] = {0,
                                      bf16_bits(-1, 0),
                                      bf16_bits(0, 0),
                                      bf16_bits(0, 64),
                                      bf16_bits(1, 0),
                                      bf16_bits(1, 64),
                                      bf16_bits(2, 0),
                                      bf16_bits(2, 64)};
  for (int c = 0; c < 32; ++c) {
    const uint16_t m = magnitudes[c & 7];
    // Minus zero is zero: there is nothing to lower its exponent from.
    t.fp4[c] = static_cast<uint16_t>(m | ((c & 8) != 0 && m != 0 ? 0x8000 : 0));
  }
  for (int c = 0; c < 128; ++c) {
    const int exponent = c >> 3;
    const int mantissa = c & 7;
    uint16_t v = 0;
    if (c == 127) {
      v = 0x7FC0;
    } else if (exponent > 0) {
      v = bf16_bits(exponent - 7, mantissa << 4);
    } else if (mantissa > 0) {
      const int top = mantissa >= 4 ? 2 : mantissa >= 2 ? 1 : 0;  // subnormals: mantissa * 2^-9
      v = bf16_bits(top - 9, (mantissa << (7 - top)) & 127);
    }
    t.fp8_low[c] = static_cast<uint8_t>(v & 255);
    t.fp8_high[c] = static_cast<uint8_t>(v >> 8);
  }
  return t;
}

constexpr Tables tables = make_tables();

// ---- From stored codes to bf16 ----

constexpr int64_t step = arranged_step;         // columns per step: four registers
constexpr int64_t blocks_per_step = step / 32;  // scales

struct Lookup {
  __m512i fp4, low0, low1, high0, high1, fp4_lanes, fp8_lanes0, fp8_lanes1, sign;
};

FATHOM_INLINE Lookup load_tables() {
  // Which of a step's four scales (as 16-bit words in every quarter) each 128-bit lane takes.
  const auto lanes = [](int a, int b, int c, int d) __attribute__((always_inline)) {
    const auto word = [](int w) __attribute__((always_inline)) {
      return _mm_set1_epi16(static_cast<short>((2 * w + 1) << 8 | 2 * w));
    };
    __m512i v = _mm512_castsi128_si512(word(a));
    v = _mm512_inserti32x4(v, word(b), 1);
    v = _mm512_inserti32x4(v, word(c), 2);
    return _mm512_inserti32x4(v, word(d), 3);
  };
  return {_mm512_load_si512(tables.fp4),
          _mm512_load_si512(tables.fp8_low),
          _mm512_load_si512(tables.fp8_low + 64),
          _mm512_load_si512(tables.fp8_high),
          _mm512_load_si512(tables.fp8_high + 64),
          lanes(0, 1, 2, 3),
          lanes(0, 0, 1, 1),
          lanes(2, 2, 3, 3),
          _mm512_set1_epi8(static_cast<char>(0x80))};
}

// One weight row on its way through the columns.
struct RowCursor {
  const uint8_t* codes;
  const uint16_t* lowering;  // for each block of 32: what its scale takes off the exponent, as bf16 bits
  __m512i nan;               // fp8: the largest doubled code so far; 254 is NaN
};

FATHOM_INLINE void unpack_fp4(const Lookup& t, const RowCursor& row, int64_t s, __m512i codes, __m512i* w) {
  const __m512i all =
      _mm512_set1_epi64(*reinterpret_cast<const long long*>(row.lowering + s * blocks_per_step));
  const __m512i lower = _mm512_shuffle_epi8(all, t.fp4_lanes);
  // Only the five low bits of a word count as an index, and the table holds every code twice.
  w[0] = _mm512_subs_epu16(_mm512_permutexvar_epi16(codes, t.fp4), lower);
  w[1] = _mm512_subs_epu16(_mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 4), t.fp4), lower);
  w[2] = _mm512_subs_epu16(_mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 8), t.fp4), lower);
  w[3] = _mm512_subs_epu16(_mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 12), t.fp4), lower);
}

FATHOM_INLINE void unpack_fp8_half(const Lookup& t, RowCursor& row, __m512i codes, __m512i lower,
                                   __m512i* w) {
  const __m512i low = _mm512_permutex2var_epi8(t.low0, codes, t.low1);
  const __m512i high = _mm512_permutex2var_epi8(t.high0, codes, t.high1);
  row.nan = _mm512_max_epu8(row.nan, _mm512_add_epi8(codes, codes));
  // Every sign but that of zero, which has no exponent to lower.
  const __mmask64 signed_codes = _mm512_cmpneq_epi8_mask(codes, t.sign);
  const __m512i top = _mm512_ternarylogic_epi32(high, codes, t.sign, 0xF8);  // high | (codes & sign)
  const __m512i signed_high = _mm512_mask_blend_epi8(signed_codes, high, top);
  w[0] = _mm512_subs_epu16(_mm512_unpacklo_epi8(low, signed_high), lower);
  w[1] = _mm512_subs_epu16(_mm512_unpackhi_epi8(low, signed_high), lower);
}

FATHOM_INLINE void unpack_fp8(const Lookup& t, RowCursor& row, int64_t s, __m512i first, __m512i second,
                              __m512i* w) {
  const __m512i all =
      _mm512_set1_epi64(*reinterpret_cast<const long long*>(row.lowering + s * blocks_per_step));
  unpack_fp8_half(t, row, first, _mm512_shuffle_epi8(all, t.fp8_lanes0), w);
  unpack_fp8_half(t, row, second, _mm512_shuffle_epi8(all, t.fp8_lanes1), w + 2);
}

FATHOM_INLINE __mmask64 first_bytes(int64_t n) {
  return n <= 0 ? 0 : n >= 64 ? ~__mmask64{0} : (__mmask64{1} << n) - 1;
}
FATHOM_INLINE __mmask32 first_words(int64_t n) {
  return n <= 0 ? 0 : n >= 32 ? ~__mmask32{0} : (__mmask32{1} << n) - 1;
}

// The four registers of step `s` of a row; `left`: columns from its beginning to the end of the row. A step
// that is not whole reads no further than that, and its other weights are zero.
template <WeightFormat format, bool whole>
FATHOM_INLINE void load_step(const Lookup& t, RowCursor& row, int64_t s, int64_t left, __m512i* w) {
  if constexpr (format == WeightFormat::fp4) {
    const uint8_t* at = row.codes + s * (step / 2);
    unpack_fp4(t, row, s, whole ? _mm512_loadu_si512(at) : _mm512_maskz_loadu_epi8(first_bytes(left / 2), at),
               w);
  } else if constexpr (format == WeightFormat::fp8) {
    const uint8_t* at = row.codes + s * step;
    if constexpr (whole)
      unpack_fp8(t, row, s, _mm512_loadu_si512(at), _mm512_loadu_si512(at + 64), w);
    else
      unpack_fp8(t, row, s, _mm512_maskz_loadu_epi8(first_bytes(left), at),
                 _mm512_maskz_loadu_epi8(first_bytes(left - 64), at + 64), w);
  } else {
    const uint8_t* at = row.codes + s * (step * 2);
    for (int i = 0; i < 4; ++i)
      w[i] = whole ? _mm512_loadu_si512(at + 64 * i)
                   : _mm512_maskz_loadu_epi16(first_words(left - 32 * i), at + 64 * i);
  }
}

// ---- Sums ----

FATHOM_INLINE __m512 dot(__m512 sum, __m512i w, __m512i x) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x));
}

// The fixed tree, for 16 sums at once: lane i + lane i + 8, then 4, 2, 1. out[j] is the sum of v[j].
FATHOM_INLINE __m512 reduce16(const __m512* v) {
  __m512 a[8];
  for (int i = 0; i < 8; ++i)
    a[i] =
        _mm512_add_ps(_mm512_shuffle_f32x4(v[i], v[i + 8], 0x44), _mm512_shuffle_f32x4(v[i], v[i + 8], 0xEE));
  __m512 b[4];  // lanes: i, i + 8 each with two quarters
  for (int i = 0; i < 4; ++i)
    b[i] =
        _mm512_add_ps(_mm512_shuffle_f32x4(a[i], a[i + 4], 0x88), _mm512_shuffle_f32x4(a[i], a[i + 4], 0xDD));
  __m512 c[2];
  for (int i = 0; i < 2; ++i) {
    const __m512d p = _mm512_castps_pd(b[i]);
    const __m512d q = _mm512_castps_pd(b[i + 2]);
    c[i] =
        _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(p, q)), _mm512_castpd_ps(_mm512_unpackhi_pd(p, q)));
  }
  const __m512 d = _mm512_add_ps(_mm512_shuffle_ps(c[0], c[1], 0x88), _mm512_shuffle_ps(c[0], c[1], 0xDD));
  // Quarter q, element e of d is the sum of v[4 * slot(e) + ...]: bring them into order.
  const __m512i order = _mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15);
  return _mm512_permutexvar_ps(order, d);
}

// ---- Scales ----

enum class Scales { usual, unusual, nan };

// What each scale of a row takes off the exponents, as bf16 bits; zeros up to a whole step.
FATHOM_INLINE Scales prepare_scales(const uint8_t* scales, int64_t blocks, uint16_t* lowering) {
  const __m256i smallest = _mm256_set1_epi8(10);  // below, E4M3 subnormals would borrow from the sign
  const __m256i span = _mm256_set1_epi8(static_cast<char>(largest_scale - 10));
  const __m256i nan = _mm256_set1_epi8(static_cast<char>(nan_scale));
  __mmask32 unusual = 0;
  __mmask32 not_numbers = 0;
  for (int64_t b = 0; b < blocks; b += 32) {
    const __mmask32 there = first_words(blocks - b);
    const __m256i codes = _mm256_maskz_loadu_epi8(there, scales + b);
    unusual |= _mm256_mask_cmpgt_epu8_mask(there, _mm256_sub_epi8(codes, smallest), span);
    not_numbers |= _mm256_cmpeq_epi8_mask(codes, nan);
    const __m512i lower =
        _mm512_slli_epi16(_mm512_sub_epi16(_mm512_set1_epi16(largest_scale), _mm512_cvtepu8_epi16(codes)), 7);
    _mm512_storeu_si512(lowering + b, _mm512_maskz_mov_epi16(there, lower));
  }
  return not_numbers != 0 ? Scales::nan : unusual != 0 ? Scales::unusual : Scales::usual;
}

FATHOM_INLINE const uint8_t* scale_row(const StoredMatrix& m, int64_t row) {
  return m.scales + row / m.rows_per_scale * m.scale_stride;
}

// ---- Few rows: from memory through registers ----

FATHOM_INLINE bool found_nan(WeightFormat format, const RowCursor& row) {
  return format == WeightFormat::fp8 &&
         _mm512_cmpeq_epi8_mask(row.nan, _mm512_set1_epi8(static_cast<char>(254))) != 0;
}

template <WeightFormat format, int W, int R, bool whole>
FATHOM_INLINE void stream_step(const Lookup& t, RowCursor* row, int64_t s, int64_t left, const uint16_t* x,
                               int64_t x_stride, __m512 (*sum)[R]) {
  for (int i = 0; i < W; ++i) {
    __m512i w[4];
    load_step<format, whole>(t, row[i], s, left, w);
    for (int j = 0; j < 4; ++j)
      for (int r = 0; r < R; ++r)
        sum[i][r] = dot(sum[i][r], w[j], _mm512_load_si512(x + r * x_stride + s * step + j * 32));
  }
}

// W weight rows, whose lowering is prepared, times R input rows.
template <WeightFormat format, int W, int R>
FATHOM_INLINE void stream(const Lookup& t, const StoredMatrix& m, int64_t first, const uint16_t* x,
                          int64_t x_stride, const uint16_t* const* lowering, float* out, int64_t out_stride) {
  RowCursor row[W];
  __m512 sum[W][R];
  for (int i = 0; i < W; ++i) {
    row[i] = {m.codes + (first + i) * m.code_stride, lowering[i], _mm512_setzero_si512()};
    for (int r = 0; r < R; ++r) sum[i][r] = _mm512_setzero_ps();
  }
  // The same columns of the rows that come next: no hardware prefetcher foresees the jump from row to row.
  const uint8_t* ahead = m.codes + (first + W) * m.code_stride;
  const uint8_t* scales_ahead = m.scales + (first + W) * m.scale_stride;
  const int64_t whole = m.in / step;
  constexpr int64_t step_bytes = format == WeightFormat::fp4   ? step / 2
                                 : format == WeightFormat::fp8 ? step
                                                               : 2 * step;
  for (int64_t s = 0; s < whole; ++s) {
    for (int i = 0; i < W; ++i)
      for (int64_t line = 0; line < step_bytes; line += 64)
        _mm_prefetch(ahead + i * m.code_stride + s * step_bytes + line, _MM_HINT_T0);
    if (format == WeightFormat::fp4) _mm_prefetch(scales_ahead + s * 64, _MM_HINT_T0);
    stream_step<format, W, R, true>(t, row, s, step, x, x_stride, sum);
  }
  if (whole * step < m.in)
    stream_step<format, W, R, false>(t, row, whole, m.in - whole * step, x, x_stride, sum);

  __m512 all[16];
  for (int j = 0; j < 16; ++j) all[j] = j < W * R ? sum[j / R][j % R] : _mm512_setzero_ps();
  alignas(64) float sums[16];
  _mm512_store_ps(sums, reduce16(all));
  for (int i = 0; i < W; ++i) {
    const bool nan = found_nan(format, row[i]);
    for (int r = 0; r < R; ++r) out[r * out_stride + i] = nan ? __builtin_nanf("") : sums[i * R + r];
  }
}

// ---- Many rows: a panel of unpacked weights ----

template <WeightFormat format>
FATHOM_INLINE void unpack_row(const Lookup& t, const StoredMatrix& m, int64_t row, const uint16_t* lowering,
                              uint16_t* out) {
  RowCursor cursor{m.codes + row * m.code_stride, lowering, _mm512_setzero_si512()};
  const int64_t whole = m.in / step;
  __m512i w[4];
  for (int64_t s = 0; s < whole; ++s) {
    load_step<format, true>(t, cursor, s, step, w);
    for (int j = 0; j < 4; ++j) _mm512_store_si512(out + s * step + 32 * j, w[j]);
  }
  if (whole * step < m.in) {
    load_step<format, false>(t, cursor, whole, m.in - whole * step, w);
    for (int j = 0; j < 4; ++j) _mm512_store_si512(out + whole * step + 32 * j, w[j]);
  }
  if (found_nan(format, cursor)) out[0] = 0x7FC0;
}

// W panel rows times R input rows.
template <int W, int R>
FATHOM_INLINE void panel_tile(const uint16_t* panel, int64_t panel_stride, int64_t columns, const uint16_t* x,
                              int64_t x_stride, float* out, int64_t out_stride) {
  __m512 sum[R][W];
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < W; ++i) sum[r][i] = _mm512_setzero_ps();
  for (int64_t k = 0; k < columns; k += 32) {
    __m512i v[R];
    for (int r = 0; r < R; ++r) v[r] = _mm512_load_si512(x + r * x_stride + k);
    for (int i = 0; i < W; ++i) {
      const __m512i w = _mm512_load_si512(panel + i * panel_stride + k);
      for (int r = 0; r < R; ++r) sum[r][i] = dot(sum[r][i], w, v[r]);
    }
  }
  for (int first = 0; first < R * W; first += 16) {
    __m512 all[16];
    for (int j = 0; j < 16; ++j)
      all[j] = first + j < R * W ? sum[(first + j) / W][(first + j) % W] : _mm512_setzero_ps();
    alignas(64) float sums[16];
    _mm512_store_ps(sums, reduce16(all));
    for (int j = 0; j < 16 && first + j < R * W; ++j)
      out[(first + j) / W * out_stride + (first + j) % W] = sums[j];
  }
}

constexpr int panel_rows = 24;  // 250 KB at 5120 columns: half of a small L2
constexpr int tile_w = 6;
constexpr int tile_r = 4;

template <int W>
FATHOM_INLINE void panel_strip(const uint16_t* panel, int64_t panel_stride, int64_t columns,
                               const uint16_t* x, int64_t x_stride, int64_t rows, float* out,
                               int64_t out_stride) {
  switch (rows) {
    case 1:
      return panel_tile<W, 1>(panel, panel_stride, columns, x, x_stride, out, out_stride);
    case 2:
      return panel_tile<W, 2>(panel, panel_stride, columns, x, x_stride, out, out_stride);
    case 3:
      return panel_tile<W, 3>(panel, panel_stride, columns, x, x_stride, out, out_stride);
    default:
      return panel_tile<W, 4>(panel, panel_stride, columns, x, x_stride, out, out_stride);
  }
}

void panel_product(const uint16_t* panel, int64_t panel_stride, int64_t num_w, int64_t columns,
                   const ArrangedRows& x, float* out, int64_t out_stride) {
  for (int64_t r = 0; r < x.rows; r += tile_r) {
    const int64_t rows = x.rows - r < tile_r ? x.rows - r : tile_r;
    const uint16_t* v = x.data + r * x.block_stride;
    float* o = out + r * out_stride;
    int64_t i = 0;
    for (; i + tile_w <= num_w; i += tile_w)
      panel_strip<tile_w>(panel + i * panel_stride, panel_stride, columns, v, x.block_stride, rows, o + i,
                          out_stride);
    for (; i < num_w; ++i)
      panel_strip<1>(panel + i * panel_stride, panel_stride, columns, v, x.block_stride, rows, o + i,
                     out_stride);
  }
}

// ---- Arranging ----

FATHOM_INLINE void arrange_fp8(const uint16_t* x, uint16_t* out) {  // 64 columns
  for (int lane = 0; lane < 4; ++lane) {
    const __m128i* from = reinterpret_cast<const __m128i*>(x + 16 * lane);
    _mm_store_si128(reinterpret_cast<__m128i*>(out + 8 * lane), _mm_loadu_si128(from));
    _mm_store_si128(reinterpret_cast<__m128i*>(out + 32 + 8 * lane), _mm_loadu_si128(from + 1));
  }
}

FATHOM_INLINE void arrange_fp4(const uint16_t* x, uint16_t* out) {  // 128 columns
  for (int quarter = 0; quarter < 4; ++quarter) {
    const __m512i v = _mm512_loadu_si512(x + 32 * quarter);
    for (unsigned n = 0; n < 4; ++n)
      _mm_store_si128(reinterpret_cast<__m128i*>(out + 32 * n + 8 * quarter),
                      _mm512_cvtepi64_epi16(_mm512_srli_epi64(v, 16 * n)));
  }
}

void arrange_row(WeightFormat format, const uint16_t* x, int64_t in, uint16_t* out) {
  for (int64_t k = 0; k < in; k += step) {
    alignas(64) uint16_t tail[step];
    const uint16_t* from = x + k;
    if (in - k < step) {
      for (int64_t i = 0; i < step; i += 32)
        _mm512_store_si512(tail + i, _mm512_maskz_loadu_epi16(first_words(in - k - i), x + k + i));
      from = tail;
    }
    if (format == WeightFormat::fp4) {
      arrange_fp4(from, out + k);
    } else if (format == WeightFormat::fp8) {
      arrange_fp8(from, out + k);
      arrange_fp8(from + 64, out + k + 64);
    } else {
      for (int64_t i = 0; i < step; i += 32) _mm512_store_si512(out + k + i, _mm512_loadu_si512(from + i));
    }
  }
}

void arrange(WeightFormat format, const uint16_t* const* rows, int64_t, int64_t in, uint16_t* out) {
  arrange_row(format, rows[0], in, out);
}

// A row with scales outside the usual range, one weight after the other. `natural`: room for a row.
void unpack_unusual(const StoredMatrix& m, int64_t row, uint16_t* natural, uint16_t* out) {
  const uint8_t* codes = m.codes + row * m.code_stride;
  const uint8_t* scales = scale_row(m, row);
  for (int64_t i = 0; i < m.in; ++i) {
    uint32_t bits = 0;
    if (m.format == WeightFormat::fp4) {
      bits = tables.fp4[codes[i / 2] >> (i % 2 * 4) & 15];
    } else {
      const uint8_t c = codes[i] & 127;
      bits = static_cast<uint32_t>(tables.fp8_high[c] << 8 | tables.fp8_low[c] | (codes[i] & 0x80) << 8);
    }
    const uint32_t scale_code = scales[i / 32];
    const float value = __builtin_bit_cast(float, bits << 16) * 0x1p-64f;
    const float scale = __builtin_bit_cast(float, scale_code == 0 ? 0x00400000u : scale_code << 23);
    natural[i] = static_cast<uint16_t>(__builtin_bit_cast(uint32_t, value * scale) >> 16);
  }
  arrange_row(m.format, natural, m.in, out);
}

// ---- The product ----

// Working memory: the lowering of a few rows, then the panel with a row for unpack_unusual at its end.
constexpr int lowering_rows = 8;
int64_t lowering_words(int64_t in) { return (in / 32 + 63) / 32 * 32; }
int64_t panel_stride(int64_t in) {
  return arranged_columns(in) + 32;
}  // a line more: rows must not share sets

int64_t panel_bytes(int64_t in) {
  return 2 * (lowering_rows * lowering_words(in) + (panel_rows + 1) * panel_stride(in));
}

struct Work {
  const StoredMatrix& m;
  uint16_t* lowering[lowering_rows];
  uint16_t* panel;
  int64_t stride;
  bool nan = false;

  Work(const StoredMatrix& matrix, uint8_t* memory)
      : m(matrix),
        panel(reinterpret_cast<uint16_t*>(memory) + lowering_rows * lowering_words(matrix.in)),
        stride(panel_stride(matrix.in)) {
    for (int i = 0; i < lowering_rows; ++i)
      lowering[i] = reinterpret_cast<uint16_t*>(memory) + i * lowering_words(matrix.in);
  }
  uint16_t* panel_row(int64_t i) const { return panel + i * stride; }
};

template <WeightFormat format>
FATHOM_INLINE void fill_panel(Work& work, const Lookup& t, int64_t first, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    Scales kind = Scales::usual;
    if (format != WeightFormat::bf16 && (i == 0 || (first + i) % work.m.rows_per_scale == 0))
      kind = prepare_scales(scale_row(work.m, first + i), work.m.in / 32, work.lowering[0]);
    work.nan |= kind == Scales::nan;
    if (kind == Scales::usual)
      unpack_row<format>(t, work.m, first + i, work.lowering[0], work.panel_row(i));
    else
      unpack_unusual(work.m, first + i, work.panel_row(panel_rows), work.panel_row(i));
  }
}

template <WeightFormat format>
FATHOM_INLINE void multiply_panels(Work& work, int64_t first, int64_t num_out, const ArrangedRows& x,
                                   float* out, int64_t out_stride) {
  const Lookup t = load_tables();
  const int64_t columns = arranged_columns(work.m.in);
  for (int64_t o = 0; o < num_out; o += panel_rows) {
    const int64_t count = num_out - o < panel_rows ? num_out - o : panel_rows;
    fill_panel<format>(work, t, first + o, count);
    panel_product(work.panel, work.stride, count, columns, x, out + o, out_stride);
  }
}

// W weight rows at a time.
template <WeightFormat format, int W, int R>
FATHOM_INLINE void multiply_few(Work& work, int64_t first, int64_t num_out, const ArrangedRows& x, float* out,
                                int64_t out_stride) {
  const Lookup t = load_tables();
  int64_t o = 0;
  for (; o + W <= num_out; o += W) {
    const uint16_t* lowering[W] = {};
    bool usual = true;
    for (int i = 0; i < W && format != WeightFormat::bf16; ++i) {
      const int64_t row = first + o + i;
      if (i > 0 && row % work.m.rows_per_scale != 0) {
        lowering[i] = lowering[i - 1];
        continue;
      }
      const Scales kind = prepare_scales(scale_row(work.m, row), work.m.in / 32, work.lowering[i]);
      lowering[i] = work.lowering[i];
      usual &= kind == Scales::usual;
      work.nan |= kind == Scales::nan;
    }
    if (usual)
      stream<format, W, R>(t, work.m, first + o, x.data, x.block_stride, lowering, out + o, out_stride);
    else
      multiply_panels<format>(work, first + o, W, x, out + o, out_stride);
  }
  if (o < num_out) multiply_panels<format>(work, first + o, num_out - o, x, out + o, out_stride);
}

template <WeightFormat format>
bool multiply_format(const StoredMatrix& m, int64_t first, int64_t num_out, const ArrangedRows& x, float* out,
                     int64_t out_stride, uint8_t* memory) {
  Work work(m, memory);
  switch (x.rows) {
    case 0:
      break;
    case 1:
      multiply_few<format, 8, 1>(work, first, num_out, x, out, out_stride);
      break;
    case 2:
      multiply_few<format, 8, 2>(work, first, num_out, x, out, out_stride);
      break;
    case 3:
      multiply_few<format, 4, 3>(work, first, num_out, x, out, out_stride);
      break;
    case 4:
      multiply_few<format, 4, 4>(work, first, num_out, x, out, out_stride);
      break;
    default:
      multiply_panels<format>(work, first, num_out, x, out, out_stride);
  }
  return !work.nan;
}

bool multiply(const StoredMatrix& m, int64_t first, int64_t num_out, const ArrangedRows& x, float* out,
              int64_t out_stride, uint8_t* memory) {
  switch (m.format) {
    case WeightFormat::fp4:
      return multiply_format<WeightFormat::fp4>(m, first, num_out, x, out, out_stride, memory);
    case WeightFormat::fp8:
      return multiply_format<WeightFormat::fp8>(m, first, num_out, x, out, out_stride, memory);
    case WeightFormat::bf16:
      break;
  }
  return multiply_format<WeightFormat::bf16>(m, first, num_out, x, out, out_stride, memory);
}

}  // namespace

const LinearKernels linear = {1, arrange, multiply, panel_bytes};

}  // namespace fathom::fast::avx512
