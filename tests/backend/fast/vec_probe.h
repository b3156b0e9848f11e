// What simd/vec.h computes, for its test: each function on whole arrays, compiled for every Isa.
#pragma once

#include <cstdint>

#include "tensor/bfloat16.h"

namespace fathom::fast {

struct VecProbe {
  void (*exp)(const float* x, int64_t n, float* out);
  void (*sigmoid)(const float* x, int64_t n, float* out);
  void (*sqrt_softplus)(const float* x, int64_t n, float* out);
  void (*erfc_positive)(const float* x, int64_t n, float* out);
  void (*to_bf16)(const float* x, int64_t n, bf16* out);
  void (*to_float)(const bf16* x, int64_t n, float* out);
  void (*low_bytes)(const uint32_t* x, uint8_t* out);  // 16 of them
  float (*sum)(const float* x);                        // 16 of them
  float (*max_lane)(const float* x);                   // 16 of them
};

namespace portable {
VecProbe vec_probe();
}
namespace avx2 {
VecProbe vec_probe();
}
namespace avx512 {
VecProbe vec_probe();
}

}  // namespace fathom::fast
