#include "tests/backend/fast/vec_probe.h"

#include "backend/fast/simd/vec.h"

namespace fathom::fast::FATHOM_ISA {
namespace {

void exp_of(const float* x, int64_t n, float* out) {
  for_lanes(
      n, FATHOM_LANES { store(out + i, exp(load(x + i, lanes)), lanes); });
}
void sigmoid_of(const float* x, int64_t n, float* out) {
  for_lanes(
      n, FATHOM_LANES { store(out + i, sigmoid(load(x + i, lanes)), lanes); });
}
void sqrt_softplus_of(const float* x, int64_t n, float* out) {
  for_lanes(
      n, FATHOM_LANES { store(out + i, sqrt_softplus(load(x + i, lanes)), lanes); });
}
void erfc_of(const float* x, int64_t n, float* out) {
  for_lanes(
      n, FATHOM_LANES { store(out + i, erfc_positive(load(x + i, lanes)), lanes); });
}
void bf16_of(const float* x, int64_t n, bf16* out) {
  for_lanes(
      n, FATHOM_LANES { store_bf16(out + i, load(x + i, lanes), lanes); });
}
void float_of(const bf16* x, int64_t n, float* out) {
  for_lanes(
      n, FATHOM_LANES { store(out + i, load_bf16(x + i, lanes), lanes); });
}
void bytes_of(const uint32_t* x, uint8_t* out) { store_u8(out, load_u32(x)); }
float sum_of(const float* x) { return sum(load(x)); }
float max_of(const float* x) { return max_lane(load(x)); }

}  // namespace

VecProbe vec_probe() {
  return {exp_of, sigmoid_of, sqrt_softplus_of, erfc_of, bf16_of, float_of, bytes_of, sum_of, max_of};
}

}  // namespace fathom::fast::FATHOM_ISA
