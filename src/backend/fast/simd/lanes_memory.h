// Loads, stores and reductions of simd/vec.h. Addresses need no alignment.
#pragma once

#include <cstddef>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "backend/fast/simd/lanes.h"
#include "tensor/bfloat16.h"

namespace fathom::fast::FATHOM_ISA {

FATHOM_SIMD f32x16 load(const float* from) {
  return Lanes<f32x16>::load(reinterpret_cast<const char*>(from));
}
FATHOM_SIMD u32x16 load_u32(const uint32_t* from) {
  return Lanes<u32x16>::load(reinterpret_cast<const char*>(from));
}
FATHOM_SIMD void store(float* to, f32x16 v) { Lanes<f32x16>::store(reinterpret_cast<char*>(to), v); }
FATHOM_SIMD void store_u32(uint32_t* to, u32x16 v) { Lanes<u32x16>::store(reinterpret_cast<char*>(to), v); }

/// Sixteen 16-bit numbers.
FATHOM_SIMD u32x16 load_u16(const uint16_t* from) {
#if FATHOM_NATIVE_BYTES == 64
  return (u32x16)_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif FATHOM_NATIVE_BYTES == 32
  const auto* at = reinterpret_cast<const __m128i*>(from);
  return {(u32native)_mm256_cvtepu16_epi32(_mm_loadu_si128(at)),
          (u32native)_mm256_cvtepu16_epi32(_mm_loadu_si128(at + 1))};
#else
  typedef uint16_t Quarter __attribute__((vector_size(8)));
  const auto quarter = [&](int i) {
    Quarter v;
    __builtin_memcpy(&v, from + 4 * i, sizeof(v));
    return __builtin_convertvector(v, u32native);
  };
  return {{quarter(0), quarter(1)}, {quarter(2), quarter(3)}};
#endif
}

/// The low 16 bits of every lane; the upper ones must be zero.
FATHOM_SIMD void store_u16(uint16_t* to, u32x16 v) {
#if FATHOM_NATIVE_BYTES == 64
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16((__m512i)v));
#elif FATHOM_NATIVE_BYTES == 32
  const __m256i packed = _mm256_packus_epi32((__m256i)v.lo, (__m256i)v.hi);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(packed, 0xD8));
#elif defined(__SSE2__)
  // SSE2 packs signed numbers only: make them so first.
  const auto pack = [](u32native a, u32native b) {
    return _mm_packs_epi32(_mm_srai_epi32(_mm_slli_epi32((__m128i)a, 16), 16),
                           _mm_srai_epi32(_mm_slli_epi32((__m128i)b, 16), 16));
  };
  auto* at = reinterpret_cast<__m128i*>(to);
  _mm_storeu_si128(at, pack(v.lo.lo, v.lo.hi));
  _mm_storeu_si128(at + 1, pack(v.hi.lo, v.hi.hi));
#else
  uint32_t lane[16];
  store_u32(lane, v);
  for (int i = 0; i < 16; ++i) to[i] = static_cast<uint16_t>(lane[i]);
#endif
}

/// The low 8 bits of every lane; the upper ones must be zero.
FATHOM_SIMD void store_u8(uint8_t* to, u32x16 v) {
#if FATHOM_NATIVE_BYTES == 64
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8((__m512i)v));
#else
  uint32_t lane[16];
  store_u32(lane, v);
  for (int i = 0; i < 16; ++i) to[i] = static_cast<uint8_t>(lane[i]);
#endif
}

FATHOM_SIMD f32x16 load_bf16(const bf16* from) {
  return float_of_bits(load_u16(reinterpret_cast<const uint16_t*>(from)) << 16);
}

/// Rounded to bf16 as to_bf16 (tensor/bfloat16.h) does, in the upper half of each lane; the lower is zero.
FATHOM_SIMD u32x16 bf16_bits(f32x16 v) {
  const u32x16 u = bits_of(v);
  const u32x16 rounded = u + splat_u32(0x7FFFu) + ((u >> 16) & splat_u32(1));
  return select(v == v, rounded, u | splat_u32(0x400000u)) & splat_u32(0xFFFF0000u);
}
FATHOM_SIMD f32x16 round_bf16(f32x16 v) { return float_of_bits(bf16_bits(v)); }
FATHOM_SIMD void store_bf16(bf16* to, f32x16 v) {
  store_u16(reinterpret_cast<uint16_t*>(to), bf16_bits(v) >> 16);
}

// How many lanes a step of a loop takes: all, or what is left at a row's end. Lanes not loaded are 0.
struct AllLanes {};
struct FirstLanes {
  int64_t count;  // 0 < count < 16
};

/// Calls body(first element, AllLanes or FirstLanes) over n elements. The body: FATHOM_LANES { .. }.
template <class Body>
FATHOM_SIMD void for_lanes(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) body(i, AllLanes{});
  if (i < n) body(i, FirstLanes{n - i});
}
#define FATHOM_LANES \
  [&]([[maybe_unused]] int64_t i, [[maybe_unused]] auto lanes) __attribute__((always_inline))

template <class T>
struct Padded {
  alignas(64) T lane[16] = {};
};
template <class T>
FATHOM_SIMD Padded<T> padded(const T* from, FirstLanes lanes) {
  Padded<T> all;
  __builtin_memcpy(all.lane, from, static_cast<size_t>(lanes.count) * sizeof(T));
  return all;
}

FATHOM_SIMD f32x16 load(const float* from, AllLanes) { return load(from); }
FATHOM_SIMD f32x16 load(const float* from, FirstLanes n) { return load(padded(from, n).lane); }
FATHOM_SIMD f32x16 load_bf16(const bf16* from, AllLanes) { return load_bf16(from); }
FATHOM_SIMD f32x16 load_bf16(const bf16* from, FirstLanes n) { return load_bf16(padded(from, n).lane); }
FATHOM_SIMD u32x16 load_u32(const uint32_t* from, AllLanes) { return load_u32(from); }
FATHOM_SIMD u32x16 load_u32(const uint32_t* from, FirstLanes n) { return load_u32(padded(from, n).lane); }

FATHOM_SIMD void store(float* to, f32x16 v, AllLanes) { store(to, v); }
FATHOM_SIMD void store(float* to, f32x16 v, FirstLanes n) {
  Padded<float> all;
  store(all.lane, v);
  __builtin_memcpy(to, all.lane, static_cast<size_t>(n.count) * sizeof(*to));
}
FATHOM_SIMD void store_bf16(bf16* to, f32x16 v, AllLanes) { store_bf16(to, v); }
FATHOM_SIMD void store_bf16(bf16* to, f32x16 v, FirstLanes n) {
  Padded<bf16> all;
  store_bf16(all.lane, v);
  __builtin_memcpy(to, all.lane, static_cast<size_t>(n.count) * sizeof(*to));
}

typedef float f32x4 __attribute__((vector_size(16)));

// Folds lanes j and j + 8, then j and j + 4, j + 2, j + 1.
template <class Fold>
FATHOM_SIMD float fold_lanes(f32x4 v, const Fold& fold) {
  const f32x4 two = fold(v, __builtin_shufflevector(v, v, 2, 3, 0, 1));
  return fold(two, __builtin_shufflevector(two, two, 1, 0, 3, 2))[0];
}
#if FATHOM_NATIVE_BYTES >= 32
typedef float f32x8 __attribute__((vector_size(32)));
template <class Fold>
FATHOM_SIMD float fold_lanes(f32x8 v, const Fold& fold) {
  return fold_lanes(
      fold(__builtin_shufflevector(v, v, 0, 1, 2, 3), __builtin_shufflevector(v, v, 4, 5, 6, 7)), fold);
}
#endif
#if FATHOM_NATIVE_BYTES == 64
template <class Fold>
FATHOM_SIMD float fold_lanes(f32x16 v, const Fold& fold) {
  return fold_lanes(fold(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                         __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)),
                    fold);
}
#endif
template <class H, class Fold>
FATHOM_SIMD float fold_lanes(const Twice<H>& v, const Fold& fold) {
  return fold_lanes(fold(v.lo, v.hi), fold);
}

FATHOM_SIMD float sum(f32x16 v) {
  return fold_lanes(
      v, [](const auto& a, const auto& b) __attribute__((always_inline)) { return a + b; });
}

/// NaN lanes are left out; -inf when there are only such.
FATHOM_SIMD float max_lane(f32x16 v) {
  const f32x16 numbers = max(v, splat(-__builtin_inff()));
  return fold_lanes(
      numbers, [](const auto& a, const auto& b) __attribute__((always_inline)) {
        using V = decltype(a + b);
        return Lanes<V>::select(a > b, a, b);
      });
}

}  // namespace fathom::fast::FATHOM_ISA
