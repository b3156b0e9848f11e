// The inner loops of the exact path: dot products and scaled sums in f64 with a fixed order.
//
// Eight lanes, lane j taking the elements congruent to j modulo 8, added up in one fixed tree: the order is
// part of the definition, so every processor and every tiling gives the same bits. Products of two f32
// values are exact in f64. The variants differ only in the instructions the compiler may use.
#pragma once

#include <cstdint>

namespace fathom::cpu {

struct DotKernels {
  /// out[i * num_w + j] = x[i] . w[j] over n floats, for 1 <= num_x and 1 <= num_w.
  void (*dots)(const float* const* x, int64_t num_x, const float* const* w, int64_t num_w, int64_t n,
               double* out);
  /// acc[i] += a * x[i]: one rounding for the product, one for the sum.
  void (*add_scaled)(double a, const float* x, int64_t n, double* acc);
};

/// The variant for the processor this runs on.
DotKernels select_dot_kernels();

/// The variant without any instruction set extension, for tests.
DotKernels portable_dot_kernels();

}  // namespace fathom::cpu
