// Stored weights to bf16 in registers, for AVX-512 with VBMI. To be included by files compiled for that.
//
// What comes out is in arranged order: the order in which codes leave their bytes, four registers of 32
// columns in a step of 128.
#pragma once

#include <immintrin.h>

#include "backend/fast/simd/linear_kernels.h"

#define FATHOM_INLINE [[maybe_unused, gnu::always_inline]] static inline

namespace fathom::fast {
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

template <WeightFormat format>
inline constexpr int64_t step_bytes = format == WeightFormat::fp4   ? step / 2
                                      : format == WeightFormat::fp8 ? step
                                                                    : 2 * step;

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

FATHOM_INLINE bool found_nan(WeightFormat format, const RowCursor& row) {
  return format == WeightFormat::fp8 &&
         _mm512_cmpeq_epi8_mask(row.nan, _mm512_set1_epi8(static_cast<char>(254))) != 0;
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
      arrange_fp8(from + 64, out + k + 64);
    } else {
      for (int64_t i = 0; i < step; i += 32) _mm512_store_si512(out + k + i, _mm512_loadu_si512(from + i));
    }
  }
}

// A row with scales outside the usual range, one weight after the other. `natural`: room for a row.
[[maybe_unused]] void unpack_unusual(const StoredMatrix& m, int64_t row, uint16_t* natural, uint16_t* out) {
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

}  // namespace
}  // namespace fathom::fast
