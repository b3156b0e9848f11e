#include "backend/cpu/dot.h"

#include <cstring>

namespace fathom::cpu {
namespace {

using Floats [[gnu::vector_size(32)]] = float;
using Doubles [[gnu::vector_size(64)]] = double;

#define FATHOM_INLINE [[gnu::always_inline]] static inline

// NX x NW dot products at once, so that each converted vector is used several times.
template <int NX, int NW>
FATHOM_INLINE void dot_tile(const float* const* x, const float* const* w, int64_t n, int64_t stride,
                            double* out) {
  Doubles sum[NX][NW] = {};
  int64_t k = 0;
  for (; k + 8 <= n; k += 8) {
    Doubles b[NW];
    for (int j = 0; j < NW; ++j) {
      Floats v;
      std::memcpy(&v, w[j] + k, sizeof(v));
      b[j] = __builtin_convertvector(v, Doubles);
    }
    for (int i = 0; i < NX; ++i) {
      Floats v;
      std::memcpy(&v, x[i] + k, sizeof(v));
      const Doubles a = __builtin_convertvector(v, Doubles);
      for (int j = 0; j < NW; ++j) sum[i][j] += a * b[j];
    }
  }
  for (int i = 0; i < NX; ++i) {
    for (int j = 0; j < NW; ++j) {
      Doubles s = sum[i][j];
      for (int64_t t = k; t < n; ++t) s[t - k] += static_cast<double>(x[i][t]) * static_cast<double>(w[j][t]);
      out[i * stride + j] = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
    }
  }
}

template <int NX>
FATHOM_INLINE void dot_rows(const float* const* x, const float* const* w, int64_t num_w, int64_t n,
                            double* out) {
  int64_t j = 0;
  for (; j + 2 <= num_w; j += 2) dot_tile<NX, 2>(x, w + j, n, num_w, out + j);
  if (j < num_w) dot_tile<NX, 1>(x, w + j, n, num_w, out + j);
}

FATHOM_INLINE void dots_body(const float* const* x, int64_t num_x, const float* const* w, int64_t num_w,
                             int64_t n, double* out) {
  int64_t i = 0;
  for (; i + 4 <= num_x; i += 4) dot_rows<4>(x + i, w, num_w, n, out + i * num_w);
  for (; i < num_x; ++i) dot_rows<1>(x + i, w, num_w, n, out + i * num_w);
}

FATHOM_INLINE void add_scaled_body(double a, const float* x, int64_t n, double* acc) {
  for (int64_t i = 0; i < n; ++i) acc[i] += a * static_cast<double>(x[i]);
}

#define FATHOM_DOT_VARIANT(suffix, ...)                                                                      \
  __VA_ARGS__ void dots_##suffix(const float* const* x, int64_t num_x, const float* const* w, int64_t num_w, \
                                 int64_t n, double* out) {                                                   \
    dots_body(x, num_x, w, num_w, n, out);                                                                   \
  }                                                                                                          \
  __VA_ARGS__ void add_scaled_##suffix(double a, const float* x, int64_t n, double* acc) {                   \
    add_scaled_body(a, x, n, acc);                                                                           \
  }

FATHOM_DOT_VARIANT(portable)
#if defined(__x86_64__)
FATHOM_DOT_VARIANT(avx2, [[gnu::target("avx2")]])
FATHOM_DOT_VARIANT(avx512, [[gnu::target("avx512f,avx512vl,avx512dq")]])
#endif

}  // namespace

DotKernels portable_dot_kernels() { return {dots_portable, add_scaled_portable}; }

DotKernels select_dot_kernels() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq"))
    return {dots_avx512, add_scaled_avx512};
  if (__builtin_cpu_supports("avx2")) return {dots_avx2, add_scaled_avx2};
#endif
  return portable_dot_kernels();
}

}  // namespace fathom::cpu
