// Stored weights to bf16 in registers, for AVX-512 with VBMI. To be included by files compiled for that.
//
// What comes out is in arranged order: the order in which codes leave their bytes, four registers of 32
// columns in a step of 128. With scales, a quarter of each register belongs to one block of 32 columns.
#pragma once

#include <immintrin.h>

#include "backend/fast/simd/linear_kernels.h"

#define FATHOM_INLINE [[maybe_unused, gnu::always_inline]] static inline
#define FATHOM_INLINE_MEMBER [[gnu::always_inline]] inline

namespace fathom::fast {
namespace {

// The scale of what is looked up can be folded into it by lowering its exponent with saturation; both zeros
// are looked up as minus zero, the one that signed saturation keeps. A scale above 1 would raise the
// exponent, one below 2^-117 can reach the sign.
constexpr int one_scale = 127;
constexpr int smallest_scale = 10;
constexpr int nan_scale = 255;

// The lowest bit is in no other weight.
constexpr uint16_t nan_weight = 0x7FC1;

struct Tables {
  alignas(64) uint16_t fp4[32];      // bf16 of an E2M1 code, twice
  alignas(64) uint8_t fp8_low[128];  // low and high byte of the bf16 of an E4M3 magnitude
  alignas(64) uint8_t fp8_high[128];
};

constexpr uint16_t bf16_bits(int exponent, int mantissa7) {
  return static_cast<uint16_t>((exponent + 127) << 7 | mantissa7);
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
    t.fp4[c] = static_cast<uint16_t>(m | ((c & 8) != 0 || m == 0 ? 0x8000 : 0));
  }
  for (int c = 0; c < 128; ++c) {
    const int exponent = c >> 3;
    const int mantissa = c & 7;
    uint16_t v = 0x8000;
    if (c == 127) {
      v = nan_weight;
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
  __m512i fp4, low0, low1, high0, high1, sign;
};

FATHOM_INLINE Lookup load_tables() {
  return {_mm512_load_si512(tables.fp4),           _mm512_load_si512(tables.fp8_low),
          _mm512_load_si512(tables.fp8_low + 64),  _mm512_load_si512(tables.fp8_high),
          _mm512_load_si512(tables.fp8_high + 64), _mm512_set1_epi8(static_cast<char>(0x80))};
}

FATHOM_INLINE void unpack_fp4(const Lookup& t, __m512i codes, __m512i* w) {
  // Only the five low bits of a word count as an index, and the table holds every code twice.
  w[0] = _mm512_permutexvar_epi16(codes, t.fp4);
  w[1] = _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 4), t.fp4);
  w[2] = _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 8), t.fp4);
  w[3] = _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, 12), t.fp4);
}

FATHOM_INLINE void unpack_fp8_half(const Lookup& t, __m512i codes, __m512i* w) {
  const __m512i low = _mm512_permutex2var_epi8(t.low0, codes, t.low1);
  const __m512i high = _mm512_permutex2var_epi8(t.high0, codes, t.high1);
  const __m512i signed_high = _mm512_ternarylogic_epi32(high, codes, t.sign, 0xF8);  // high | (codes & sign)
  w[0] = _mm512_unpacklo_epi8(low, signed_high);
  w[1] = _mm512_unpackhi_epi8(low, signed_high);
}

FATHOM_INLINE void unpack_fp8(const Lookup& t, __m512i first, __m512i second, __m512i* w) {
  // A quarter for each block: its first 16 columns, then its others.
  unpack_fp8_half(t, _mm512_shuffle_i64x2(first, second, 0x88), w);
  unpack_fp8_half(t, _mm512_shuffle_i64x2(first, second, 0xDD), w + 2);
}

FATHOM_INLINE __mmask64 first_bytes(int64_t n) {
  return n <= 0 ? 0 : n >= 64 ? ~__mmask64{0} : (__mmask64{1} << n) - 1;
}
FATHOM_INLINE __mmask32 first_words(int64_t n) {
  return n <= 0 ? 0 : n >= 32 ? ~__mmask32{0} : (__mmask32{1} << n) - 1;
}

template <WeightFormat format>
inline constexpr int64_t step_bytes = format == WeightFormat::fp4   ? step / 2
                                      : format == WeightFormat::fp8 ? step
                                                                    : 2 * step;

// The four registers of a step of codes, without their scales; `left`: columns from its beginning to the end
// of the row. A step that is not whole reads no further than that; its other weights are zero.
template <WeightFormat format, bool whole>
FATHOM_INLINE void load_step(const Lookup& t, const uint8_t* at, int64_t left, __m512i* w) {
  if constexpr (format == WeightFormat::fp4) {
    unpack_fp4(t, whole ? _mm512_loadu_si512(at) : _mm512_maskz_loadu_epi8(first_bytes(left / 2), at), w);
  } else if constexpr (format == WeightFormat::fp8) {
    if constexpr (whole)
      unpack_fp8(t, _mm512_loadu_si512(at), _mm512_loadu_si512(at + 64), w);
    else
      unpack_fp8(t, _mm512_maskz_loadu_epi8(first_bytes(left), at),
                 _mm512_maskz_loadu_epi8(first_bytes(left - 64), at + 64), w);
  } else {
    for (int i = 0; i < 4; ++i)
      w[i] = whole ? _mm512_loadu_si512(at + 64 * i)
                   : _mm512_maskz_loadu_epi16(first_words(left - 32 * i), at + 64 * i);
  }
}

// ---- Scales ----

FATHOM_INLINE const uint8_t* scale_row(const StoredMatrix& m, int64_t row) {
  return m.scales + row / m.rows_per_scale * m.scale_stride;
}

enum class Scales { usual, unusual, nan };

// Usual scales are in [smallest, largest].
FATHOM_INLINE Scales check_scales(const uint8_t* scales, int64_t n, int smallest, int largest) {
  const __m512i low = _mm512_set1_epi8(static_cast<char>(smallest));
  __m512i most[4] = {};  // above the smallest, as unsigned numbers
  int64_t i = 0;
  for (; i + 256 <= n; i += 256)
    for (int j = 0; j < 4; ++j)
      most[j] = _mm512_max_epu8(most[j], _mm512_sub_epi8(_mm512_loadu_si512(scales + i + 64 * j), low));
  for (; i < n; i += 64)
    most[0] = _mm512_max_epu8(
        most[0], _mm512_sub_epi8(_mm512_mask_loadu_epi8(low, first_bytes(n - i), scales + i), low));
  for (int j = 1; j < 4; ++j) most[0] = _mm512_max_epu8(most[0], most[j]);
  const __m512i span = _mm512_set1_epi8(static_cast<char>(largest - smallest));
  if (_mm512_cmpgt_epu8_mask(most[0], span) == 0) return Scales::usual;
  for (i = 0; i < n; ++i)
    if (scales[i] == nan_scale) return Scales::nan;
  return Scales::unusual;
}

// With few rows a scale is a factor of sums, with more it is folded into weights: the same bits, as long as
// nothing becomes subnormal or infinite on the way. Inputs of at least 2^-70 (see clear_tiny), weights of at
// least 2^-9 and scales of at least 2^-30: all products and their sums are multiples of 2^-124.
constexpr int smallest_usual_scale = 97;

FATHOM_INLINE __m512i clear_tiny(__m512i x) {
  const __m512i magnitude = _mm512_and_si512(x, _mm512_set1_epi16(0x7FFF));
  return _mm512_maskz_mov_epi16(_mm512_cmpge_epu16_mask(magnitude, _mm512_set1_epi16((127 - 70) << 7)), x);
}

// Of the rows [first, first + num_out), num_out > 0. Brings their scales near, too.
FATHOM_INLINE Scales check_rows(const StoredMatrix& m, int64_t first, int64_t num_out) {
  const uint8_t* begin = scale_row(m, first);
  return check_scales(begin, scale_row(m, first + num_out - 1) - begin + m.in / 32, smallest_usual_scale,
                      one_scale);
}

// The scales of a step, spread over the bytes of the quarters that take them: `spread` says where to.
template <bool whole>
FATHOM_INLINE __m512i load_scales(const uint8_t* at, int64_t left, __m512i spread) {
  int four = 0;
  if constexpr (whole) {
    __builtin_memcpy(&four, at, sizeof(four));
  } else {
    for (int64_t b = 0; b < left / 32; ++b) four |= at[b] << 8 * b;
  }
  return _mm512_shuffle_epi8(_mm512_set1_epi32(four), spread);
}

// Quarter q takes byte q of four scales: to the bytes of every 32-bit word that `word` has a 1 in.
FATHOM_INLINE __m512i spread_to(unsigned word) {
  __m512i v = _mm512_setzero_si512();
  for (int q = 0; q < 4; ++q) {
    unsigned control = 0;
    for (int byte = 0; byte < 4; ++byte)
      control |= ((word >> 8 * byte & 1) != 0 ? static_cast<unsigned>(q) : 0x80u) << 8 * byte;
    v = _mm512_mask_set1_epi32(v, static_cast<__mmask16>(15 << 4 * q), static_cast<int>(control));
  }
  return v;
}

// ---- Weights with their scales ----

// One row, to arranged order. NaN when a weight is.
template <WeightFormat format>
struct ScaledRow {
  Lookup t = load_tables();
  __m512i spread_words = spread_to(0x00010001);
  __m512i spread_tops = spread_to(0x01000000);
  const uint8_t* codes = nullptr;
  const uint8_t* scales = nullptr;
  int64_t in = 0;
  __m512i nan = _mm512_setzero_si512();

  FATHOM_INLINE_MEMBER void begin(const StoredMatrix& m, int64_t row) {
    codes = m.codes + row * m.code_stride;
    if (format != WeightFormat::bf16) scales = scale_row(m, row);
    in = m.in;
    nan = _mm512_setzero_si512();
  }

  // Step `s` to w[0..3]; `usual`: its scales lie in [smallest_scale, one_scale].
  template <bool whole>
  FATHOM_INLINE_MEMBER void load(int64_t s, bool usual, __m512i* w) {
    const int64_t left = in - s * step;
    load_step<format, whole>(t, codes + s * step_bytes<format>, left, w);
    if constexpr (format == WeightFormat::bf16) return;
    if constexpr (format == WeightFormat::fp8)
      nan = _mm512_or_si512(_mm512_ternarylogic_epi32(nan, w[0], w[1], 0xFE), _mm512_or_si512(w[2], w[3]));
    const uint8_t* at = scales + s * blocks_per_step;
    if (usual)
      lower(load_scales<whole>(at, left, spread_words), w);
    else
      multiply(load_scales<whole>(at, left, spread_tops), w);
  }

  bool found_nan() const { return _mm512_test_epi16_mask(nan, _mm512_set1_epi16(1)) != 0; }

 private:
  FATHOM_INLINE_MEMBER static void lower(__m512i scale, __m512i* w) {
    const __m512i lowering = _mm512_slli_epi16(_mm512_sub_epi16(_mm512_set1_epi16(one_scale), scale), 7);
    for (int j = 0; j < 4; ++j) w[j] = _mm512_subs_epi16(w[j], lowering);
  }

  // Any scale but NaN; what is no bf16 then is cut off.
  FATHOM_INLINE_MEMBER static void multiply(__m512i scale, __m512i* w) {
    const __m512i bits = _mm512_srli_epi32(scale, 1);
    const __m512 factor = _mm512_castsi512_ps(
        _mm512_mask_set1_epi32(bits, _mm512_testn_epi32_mask(bits, bits), 0x00400000));  // code 0 is 2^-127
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xFFFF0000u));
    for (int j = 0; j < 4; ++j) {
      const __m512 even = _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32(w[j], 16)), factor);
      const __m512 odd = _mm512_mul_ps(_mm512_castsi512_ps(_mm512_and_si512(w[j], high)), factor);
      w[j] = _mm512_or_si512(_mm512_and_si512(_mm512_castps_si512(odd), high),
                             _mm512_srli_epi32(_mm512_castps_si512(even), 16));
    }
  }
};

// ---- The order of columns in tiles: a register is one block, after transpose_quarters() ----

// 32 input columns in that order: only FP4 leaves its codes' own, word by word of eight columns.
template <WeightFormat format>
FATHOM_INLINE __m512i tile_columns(__m512i x) {
  if constexpr (format != WeightFormat::fp4) return x;
  __m512i order = _mm512_setzero_si512();
  for (unsigned p = 0; p < 16; ++p) {
    const unsigned column = 8 * (p % 4) + p / 4;  // and the one of the next word
    order = _mm512_mask_set1_epi32(order, static_cast<__mmask16>(1u << p),
                                   static_cast<int>(column | (column + 4) << 16));
  }
  return _mm512_permutexvar_epi16(order, x);
}

// ---- Arranging ----

FATHOM_INLINE void arrange_fp8(const uint16_t* x, uint16_t* out) {  // 128 columns
  for (int block = 0; block < 4; ++block)
    for (int part = 0; part < 4; ++part)
      _mm_store_si128(reinterpret_cast<__m128i*>(out + 32 * part + 8 * block),
                      _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + 32 * block + 8 * part)));
}

FATHOM_INLINE void arrange_fp4(const uint16_t* x, uint16_t* out) {  // 128 columns
  for (int quarter = 0; quarter < 4; ++quarter) {
    const __m512i v = _mm512_loadu_si512(x + 32 * quarter);
    for (unsigned n = 0; n < 4; ++n)
      _mm_store_si128(reinterpret_cast<__m128i*>(out + 32 * n + 8 * quarter),
                      _mm512_cvtepi64_epi16(_mm512_srli_epi64(v, 16 * n)));
  }
}

[[maybe_unused]] void arrange_row(WeightFormat format, const uint16_t* x, int64_t in, uint16_t* out) {
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
    } else {
      for (int64_t i = 0; i < step; i += 32) _mm512_store_si512(out + k + i, _mm512_loadu_si512(from + i));
    }
  }
}

}  // namespace
}  // namespace fathom::fast
