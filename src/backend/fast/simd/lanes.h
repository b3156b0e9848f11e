// The vector types of simd/vec.h and their operators.
//
// f32x16, i32x16 and u32x16 have + - * /, & | ^ ~, << >> by an int, comparisons (masks: i32x16, all bits of
// a lane set or none) and select(). On narrower processors they are pairs of shorter vectors, so there is no
// v[i] and no `mask ? a : b`. Products that are added are contracted where the processor has FMA.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if !defined(FATHOM_ISA)
#error "to be compiled once for each Isa: cmake/simd.cmake"
#endif

// Not even a debug build may leave a copy of these behind (see vec.h).
#define FATHOM_SIMD [[maybe_unused, gnu::always_inline]] static inline

namespace fathom::fast::FATHOM_ISA {

// g++ 12 takes vectors wider than the processor's own through memory, hence pairs.
template <class H>
struct Twice {
  H lo, hi;
};

#if defined(__AVX512F__)
#define FATHOM_NATIVE_BYTES 64
#elif defined(__AVX2__)
#define FATHOM_NATIVE_BYTES 32
#else
#define FATHOM_NATIVE_BYTES 16
#endif
typedef float f32native __attribute__((vector_size(FATHOM_NATIVE_BYTES)));
typedef int32_t i32native __attribute__((vector_size(FATHOM_NATIVE_BYTES)));
typedef uint32_t u32native __attribute__((vector_size(FATHOM_NATIVE_BYTES)));

#if FATHOM_NATIVE_BYTES == 64
using f32x16 = f32native;
using i32x16 = i32native;
using u32x16 = u32native;
#elif FATHOM_NATIVE_BYTES == 32
using f32x16 = Twice<f32native>;
using i32x16 = Twice<i32native>;
using u32x16 = Twice<u32native>;
#else
using f32x16 = Twice<Twice<f32native>>;
using i32x16 = Twice<Twice<i32native>>;
using u32x16 = Twice<Twice<u32native>>;
#endif

// Twice<..<f32native>..> to Twice<..<To>..>.
template <class V, class To>
struct With {
  using Type = To;
};
template <class H, class To>
struct With<Twice<H>, To> {
  using Type = Twice<typename With<H, To>::Type>;
};

#define FATHOM_OPERATOR(op)                                                \
  template <class H>                                                       \
  FATHOM_SIMD Twice<H> operator op(const Twice<H>& a, const Twice<H>& b) { \
    return {a.lo op b.lo, a.hi op b.hi};                                   \
  }                                                                        \
  template <class H>                                                       \
  FATHOM_SIMD Twice<H>& operator op##=(Twice<H>& a, const Twice<H>& b) {   \
    return a = a op b;                                                     \
  }
FATHOM_OPERATOR(+)
FATHOM_OPERATOR(-)
FATHOM_OPERATOR(*)
FATHOM_OPERATOR(/)
FATHOM_OPERATOR(&)
FATHOM_OPERATOR(|)
FATHOM_OPERATOR(^)
#undef FATHOM_OPERATOR

#define FATHOM_COMPARISON(op)                                                                              \
  template <class H>                                                                                       \
  FATHOM_SIMD typename With<Twice<H>, i32native>::Type operator op(const Twice<H>& a, const Twice<H>& b) { \
    using M = typename With<H, i32native>::Type;                                                           \
    return {(M)(a.lo op b.lo), (M)(a.hi op b.hi)};                                                         \
  }
FATHOM_COMPARISON(<)
FATHOM_COMPARISON(<=)
FATHOM_COMPARISON(>)
FATHOM_COMPARISON(>=)
FATHOM_COMPARISON(==)
FATHOM_COMPARISON(!=)
#undef FATHOM_COMPARISON

template <class H>
FATHOM_SIMD Twice<H> operator<<(const Twice<H>& a, int n) {
  return {a.lo << n, a.hi << n};
}
template <class H>
FATHOM_SIMD Twice<H> operator>>(const Twice<H>& a, int n) {
  return {a.lo >> n, a.hi >> n};
}
template <class H>
FATHOM_SIMD Twice<H> operator~(const Twice<H>& a) {
  return {~a.lo, ~a.hi};
}
template <class H>
FATHOM_SIMD Twice<H> operator-(const Twice<H>& a) {
  return {-a.lo, -a.hi};
}

// What cannot be an operator, once for the processor's own vectors and once for pairs.
template <class V>
struct Lanes {
  FATHOM_SIMD V load(const char* from) {
    V v;
    __builtin_memcpy(&v, from, sizeof(v));
    return v;
  }
  FATHOM_SIMD void store(char* to, V v) { __builtin_memcpy(to, &v, sizeof(v)); }
  template <class S>
  FATHOM_SIMD V splat(S s) {
    return s - V{};  // exact, and -0 stays -0
  }
  template <class M>
  FATHOM_SIMD V select(M mask, V a, V b) {
    return mask ? a : b;
  }
  FATHOM_SIMD V sqrt(V v) {
#if FATHOM_NATIVE_BYTES == 64
    return (V)_mm512_sqrt_ps((__m512)v);
#elif FATHOM_NATIVE_BYTES == 32
    return (V)_mm256_sqrt_ps((__m256)v);
#elif defined(__SSE2__)
    return (V)_mm_sqrt_ps((__m128)v);
#else
    for (int i = 0; i < FATHOM_NATIVE_BYTES / 4; ++i) v[i] = __builtin_sqrtf(v[i]);
    return v;
#endif
  }
  template <class From>
  FATHOM_SIMD V bits(From v) {
    return (V)v;
  }
  template <class From>
  FATHOM_SIMD V value(From v) {
    return __builtin_convertvector(v, V);
  }
};
template <class H>
struct Lanes<Twice<H>> {
  FATHOM_SIMD Twice<H> load(const char* from) {
    return {Lanes<H>::load(from), Lanes<H>::load(from + sizeof(H))};
  }
  FATHOM_SIMD void store(char* to, const Twice<H>& v) {
    Lanes<H>::store(to, v.lo);
    Lanes<H>::store(to + sizeof(H), v.hi);
  }
  template <class S>
  FATHOM_SIMD Twice<H> splat(S s) {
    return {Lanes<H>::splat(s), Lanes<H>::splat(s)};
  }
  template <class M>
  FATHOM_SIMD Twice<H> select(const Twice<M>& mask, const Twice<H>& a, const Twice<H>& b) {
    return {Lanes<H>::select(mask.lo, a.lo, b.lo), Lanes<H>::select(mask.hi, a.hi, b.hi)};
  }
  FATHOM_SIMD Twice<H> sqrt(const Twice<H>& v) { return {Lanes<H>::sqrt(v.lo), Lanes<H>::sqrt(v.hi)}; }
  template <class From>
  FATHOM_SIMD Twice<H> bits(const Twice<From>& v) {
    return {Lanes<H>::bits(v.lo), Lanes<H>::bits(v.hi)};
  }
  template <class From>
  FATHOM_SIMD Twice<H> value(const Twice<From>& v) {
    return {Lanes<H>::value(v.lo), Lanes<H>::value(v.hi)};
  }
};

FATHOM_SIMD f32x16 splat(float v) { return Lanes<f32x16>::splat(v); }
FATHOM_SIMD i32x16 splat_i32(int32_t v) { return Lanes<i32x16>::splat(v); }
FATHOM_SIMD u32x16 splat_u32(uint32_t v) { return Lanes<u32x16>::splat(v); }

/// a where the mask is set, else b.
FATHOM_SIMD f32x16 select(i32x16 mask, f32x16 a, f32x16 b) { return Lanes<f32x16>::select(mask, a, b); }
FATHOM_SIMD u32x16 select(i32x16 mask, u32x16 a, u32x16 b) { return Lanes<u32x16>::select(mask, a, b); }
FATHOM_SIMD i32x16 select(i32x16 mask, i32x16 a, i32x16 b) { return Lanes<i32x16>::select(mask, a, b); }

FATHOM_SIMD u32x16 bits_of(f32x16 v) { return Lanes<u32x16>::bits(v); }
FATHOM_SIMD u32x16 bits_of(i32x16 v) { return Lanes<u32x16>::bits(v); }
FATHOM_SIMD f32x16 float_of_bits(u32x16 v) { return Lanes<f32x16>::bits(v); }
FATHOM_SIMD i32x16 signed_of(u32x16 v) { return Lanes<i32x16>::bits(v); }
FATHOM_SIMD i32x16 to_i32(f32x16 v) { return Lanes<i32x16>::value(v); }  // towards zero
FATHOM_SIMD f32x16 to_f32(i32x16 v) { return Lanes<f32x16>::value(v); }

/// v. Keeps the compiler from reading a loaded vector anew from memory for each of its uses.
FATHOM_SIMD f32x16 in_register(f32x16 v) {
#if FATHOM_NATIVE_BYTES == 64
  asm("" : "+v"(v));
#endif
  return v;
}

FATHOM_SIMD f32x16 sqrt(f32x16 v) { return Lanes<f32x16>::sqrt(v); }
FATHOM_SIMD f32x16 abs(f32x16 v) { return float_of_bits(bits_of(v) & splat_u32(0x7FFFFFFFu)); }
/// The second where either is NaN: fold with it as max(x, so_far) to leave NaN out, which std::max does too.
FATHOM_SIMD f32x16 max(f32x16 a, f32x16 b) { return select(a > b, a, b); }
FATHOM_SIMD f32x16 min(f32x16 a, f32x16 b) { return select(a < b, a, b); }

}  // namespace fathom::fast::FATHOM_ISA
