// Records to tiles of bf16 (see attention_unpack.h): 32 values of 16 keys at a time, in registers.
#include <immintrin.h>

#include "backend/fast/simd/attention_unpack.h"
#include "backend/fast/simd/transpose_avx512.h"
#include "backend/fast/simd/vec.h"

namespace fathom::fast::avx512 {
namespace {

struct Tables {
  float e8m0[256];
  float e4m3[256];
};

constexpr float power(int e) {
  float x = 1;
  for (; e > 0; --e) x *= 2;
  for (; e < 0; ++e) x /= 2;
  return x;
}

constexpr Tables make_tables() {
  Tables t{};
  for (int i = 0; i < 255; ++i) t.e8m0[i] = power(i - 127);
  t.e8m0[255] = __builtin_nanf("");
  for (int i = 0; i < 256; ++i) {
    const int exponent = i >> 3 & 15;
    const auto mantissa = static_cast<float>(i & 7);
    float x = exponent == 0 ? mantissa * power(-9) : (8 + mantissa) * power(exponent - 10);
    if ((i & 127) == 127) x = __builtin_nanf("");
    t.e4m3[i] = i >= 128 ? -x : x;
  }
  return t;
}

constexpr Tables tables = make_tables();

// 32 values of a window record: E4M3 through half precision, whose exponents are 8 lower.
FATHOM_SIMD __m512i window_values(const uint8_t* record, int64_t dim, int64_t chunk) {
  const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(record + chunk * 32));
  const __m512i shifted = _mm512_slli_epi16(_mm512_cvtepi8_epi16(codes), 7);
  __m512i halves = _mm512_and_si512(shifted, _mm512_set1_epi16(static_cast<int16_t>(0xBF80)));
  const __m512i magnitudes = _mm512_and_si512(shifted, _mm512_set1_epi16(0x3F80));
  const __mmask32 nan = _mm512_cmpeq_epi16_mask(magnitudes, _mm512_set1_epi16(0x3F80));
  halves = _mm512_mask_mov_epi16(halves, nan, _mm512_set1_epi16(0x7E00));
  const __m512 scale = _mm512_set1_ps(tables.e8m0[record[dim + chunk]]);
  const __m512 up = _mm512_set1_ps(0x1p8f);
  const __m512 low = _mm512_cvtph_ps(_mm512_castsi512_si256(halves));
  const __m512 high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1));
  return (__m512i)_mm512_cvtne2ps_pbh(_mm512_mul_ps(_mm512_mul_ps(high, up), scale),
                                      _mm512_mul_ps(_mm512_mul_ps(low, up), scale));
}

// 32 values of a compressed record. Products of E2M1 and E4M3 are exact in bf16: the upper halves are all.
FATHOM_SIMD __m512i compressed_values(const uint8_t* record, int64_t dim, int64_t chunk) {
  const __m512 values = _mm512_set_ps(-6, -4, -3, -2, -1.5f, -1, -0.5f, -0.0f, 6, 4, 3, 2, 1.5f, 1, 0.5f, 0);
  const __m512i codes =
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(record + chunk * 16)));
  const uint8_t* scales = record + dim / 2 + chunk * 2;
  const __m512 scale = _mm512_mask_mov_ps(_mm512_set1_ps(tables.e4m3[scales[0]]), 0xFF00,
                                          _mm512_set1_ps(tables.e4m3[scales[1]]));
  const __m512 even = _mm512_mul_ps(_mm512_permutexvar_ps(codes, values), scale);
  const __m512 odd = _mm512_mul_ps(_mm512_permutexvar_ps(_mm512_srli_epi32(codes, 4), values), scale);
  constexpr int blend = 0xCA;  // of the second and third, by the first
  return _mm512_ternarylogic_epi32(_mm512_set1_epi32(static_cast<int>(0xFFFF0000)), _mm512_castps_si512(odd),
                                   _mm512_srli_epi32(_mm512_castps_si512(even), 16), blend);
}

// 16 rows of 16 dwords, transposed.
FATHOM_SIMD void store_transposed(const __m512i* x, uint8_t* out) {
  __m512i rows[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) rows[i] = x[i];
  transpose_16x16(rows);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) _mm512_store_si512(out + i * 64, rows[i]);
}

// Pairs of rows of 32 values, value by value.
FATHOM_SIMD void store_pairs(const __m512i* x, uint8_t* out) {
  alignas(64) uint16_t first[32];
  for (int i = 0; i < 32; ++i) first[i] = static_cast<uint16_t>(i / 2 + i % 2 * 32);
  const __m512i low = _mm512_load_si512(first);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i, out += value_row_bytes) {
    _mm512_store_si512(out, _mm512_permutex2var_epi16(x[2 * i], low, x[2 * i + 1]));
    _mm512_store_si512(out + 64, _mm512_permutex2var_epi16(x[2 * i], high, x[2 * i + 1]));
  }
}

enum class Kind { window, compressed, mixed };

template <Kind kind>
FATHOM_SIMD __m512i values_of(const AttentionKey& key, int64_t dim, int64_t chunk) {
  if (kind == Kind::window) return window_values(key.record, dim, chunk);
  if (kind == Kind::compressed) return compressed_values(key.record, dim, chunk);
  if (key.record == nullptr) return _mm512_setzero_si512();
  return key.compressed ? compressed_values(key.record, dim, chunk) : window_values(key.record, dim, chunk);
}

template <Kind kind>
FATHOM_SIMD void unpack_group(const AttentionKey* keys, int64_t dim, uint8_t* scores, uint8_t* values) {
  for (int64_t c = 0; c < dim / 32; ++c) {
    __m512i x[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) x[i] = values_of<kind>(keys[i], dim, c);
    store_transposed(x, scores + c * 16 * 64);
    store_pairs(x, values + c * (attention_tile / 2) * value_row_bytes);
  }
}

}  // namespace

void unpack_attention_keys(const AttentionKey* keys, int64_t group, int64_t dim, uint8_t* tile) {
  int64_t compressed = 0;
  bool all = true;
  for (int64_t i = 0; i < attention_group; ++i) {
    all = all && keys[i].record != nullptr;
    compressed += keys[i].record != nullptr && keys[i].compressed ? 1 : 0;
  }
  uint8_t* scores = tile + group * attention_group * dim * 2;
  uint8_t* values = tile + score_keys_bytes(dim) + group * (attention_group / 2) * value_row_bytes;
  if (all && compressed == 0)
    unpack_group<Kind::window>(keys, dim, scores, values);
  else if (all && compressed == attention_group)
    unpack_group<Kind::compressed>(keys, dim, scores, values);
  else
    unpack_group<Kind::mixed>(keys, dim, scores, values);
}

}  // namespace fathom::fast::avx512
