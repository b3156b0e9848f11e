// Transposing registers: dwords within quarters, whole quarters, and both.
#pragma once

#include <immintrin.h>

namespace fathom::fast {
namespace {

/// Dword d of quarter q of a[i], to dword i of quarter q of out[d]: 4 x 4 in every quarter.
[[maybe_unused, gnu::always_inline]] inline void transpose_dwords(const __m512i* a, __m512i* out) {
  const __m512i t0 = _mm512_unpacklo_epi32(a[0], a[1]);
  const __m512i t1 = _mm512_unpackhi_epi32(a[0], a[1]);
  const __m512i t2 = _mm512_unpacklo_epi32(a[2], a[3]);
  const __m512i t3 = _mm512_unpackhi_epi32(a[2], a[3]);
  out[0] = _mm512_unpacklo_epi64(t0, t2);
  out[1] = _mm512_unpackhi_epi64(t0, t2);
  out[2] = _mm512_unpacklo_epi64(t1, t3);
  out[3] = _mm512_unpackhi_epi64(t1, t3);
}

/// Quarter q of w[i], to quarter i of w[q].
[[maybe_unused, gnu::always_inline]] inline void transpose_quarters(__m512i* w) {
  const __m512i a = _mm512_shuffle_i32x4(w[0], w[1], 0x44);
  const __m512i b = _mm512_shuffle_i32x4(w[2], w[3], 0x44);
  const __m512i c = _mm512_shuffle_i32x4(w[0], w[1], 0xEE);
  const __m512i d = _mm512_shuffle_i32x4(w[2], w[3], 0xEE);
  w[0] = _mm512_shuffle_i32x4(a, b, 0x88);
  w[1] = _mm512_shuffle_i32x4(a, b, 0xDD);
  w[2] = _mm512_shuffle_i32x4(c, d, 0x88);
  w[3] = _mm512_shuffle_i32x4(c, d, 0xDD);
}

/// Dword d of r[i], to dword i of r[d].
[[maybe_unused, gnu::always_inline]] inline void transpose_16x16(__m512i* r) {
  __m512i turned[4][4];  // [rows 4 g to 4 g + 3][dword of a quarter]
#pragma GCC unroll 4
  for (int g = 0; g < 4; ++g) transpose_dwords(r + 4 * g, turned[g]);
#pragma GCC unroll 4
  for (int d = 0; d < 4; ++d) {
    __m512i quarters[4] = {turned[0][d], turned[1][d], turned[2][d], turned[3][d]};
    transpose_quarters(quarters);
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) r[4 * q + d] = quarters[q];
  }
}

}  // namespace
}  // namespace fathom::fast
