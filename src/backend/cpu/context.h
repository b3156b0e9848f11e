// What every kernel of the exact CPU path works with: the pool and the inner loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/dot.h"
#include "backend/cpu/scratch.h"
#include "base/check.h"
#include "base/threads.h"
#include "ops/tensor_ref.h"
#include "tensor/bfloat16.h"

namespace fathom::cpu {

struct Context {
  ThreadPool& pool;
  DotKernels kernels;
  Scratch& scratch;           // of the operation; not for use inside a parallel body
  std::span<Scratch> worker;  // one for each of the pool's workers

  /// x . w over n floats, in the fixed order of dot.h.
  double dot(const float* x, const float* w, int64_t n) const {
    double out;
    kernels.dots(&x, 1, &w, 1, n, &out);
    return out;
  }
};

template <class T>
constexpr bool holds(DType dtype) {
  if constexpr (std::is_same_v<T, bf16>) return dtype == DType::bf16;
  if constexpr (std::is_same_v<T, float>) return dtype == DType::f32;
  if constexpr (std::is_same_v<T, int32_t>) return dtype == DType::i32;
  if constexpr (std::is_same_v<T, int64_t>) return dtype == DType::i64;
  if constexpr (std::is_same_v<T, uint8_t>) return dtype == DType::u8;
  return false;
}

/// The elements of an activation, which is aligned (weights are not: tensor/weight.h).
template <class T>
T* elements(const TensorRef& t) {
  FATHOM_CHECK(holds<T>(t.dtype));
  return reinterpret_cast<T*>(t.data);
}
template <class T>
const T* elements(const TensorView& t) {
  FATHOM_CHECK(holds<T>(t.dtype));
  return reinterpret_cast<const T*>(t.data);
}

inline void to_floats(const bf16* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = to_float(x[i]);
}

inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// 1 / sqrt(mean(x^2) + eps).
inline double inverse_rms(const Context& context, const float* x, int64_t n, double eps) {
  return 1.0 / std::sqrt(context.dot(x, x, n) / static_cast<double>(n) + eps);
}

/// out = bf16(weight * (x / rms(x))); x and weight as float.
inline void rms_norm_row(const Context& context, const float* x, const float* weight, int64_t n, double eps,
                         bf16* out) {
  const double r = inverse_rms(context, x, n, eps);
  for (int64_t i = 0; i < n; ++i)
    out[i] = to_bf16(static_cast<double>(weight[i]) * (static_cast<double>(x[i]) * r));
}

/// cos and sin of one position's angles; the angle is an f32 product (spec 1, Attention).
struct Rotation {
  int64_t pairs;
  std::vector<float> cosine, sine;

  Rotation(int64_t position, const TensorView& freqs, bool inverse)
      : pairs(freqs.shape[0]), cosine(static_cast<size_t>(pairs)), sine(static_cast<size_t>(pairs)) {
    const float* f = elements<float>(freqs);
    for (size_t i = 0; i < cosine.size(); ++i) {
      const float angle = static_cast<float>(position) * f[i];
      cosine[i] = static_cast<float>(std::cos(static_cast<double>(angle)));
      sine[i] = static_cast<float>(std::sin(static_cast<double>(angle)));
      if (inverse) sine[i] = -sine[i];
    }
  }

  /// Rotates the last 2 * pairs of n values, adjacent elements being a pair; rounds them to bf16.
  void apply(float* x, int64_t n) const {
    float* tail = x + n - 2 * pairs;
    for (size_t i = 0; i < cosine.size(); ++i) {
      const float a = tail[2 * i];
      const float b = tail[2 * i + 1];
      tail[2 * i] = round_bf16(a * cosine[i] - b * sine[i]);
      tail[2 * i + 1] = round_bf16(a * sine[i] + b * cosine[i]);
    }
  }
};

}  // namespace fathom::cpu
