// The row-wise kernels of the fast path, one table for each Isa: what they take and give.
//
// Pointers need no alignment. Lengths may be any, 0 included, unless said otherwise. A result depends on the
// arguments alone. Only declarations here: the kernels' own files include this (see simd/vec.h).
#pragma once

#include <cstdint>

#include "tensor/bfloat16.h"

namespace fathom::fast {

struct RowKernels {
  void (*to_floats)(const bf16* in, int64_t n, float* out);

  /// out = weight * (x / rms(x)); out may be x.
  void (*rms_norm)(const bf16* x, const float* weight, int64_t n, double eps, bf16* out);
};

namespace portable {
void add_norm_kernels(RowKernels& to);
}
namespace avx2 {
void add_norm_kernels(RowKernels& to);
}
namespace avx512 {
void add_norm_kernels(RowKernels& to);
}

}  // namespace fathom::fast
