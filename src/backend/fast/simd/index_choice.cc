// Looking through index scores.
#include "backend/fast/simd/index_kernels.h"
#include "backend/fast/simd/vec.h"

namespace fathom::fast::FATHOM_ISA {
namespace {

int64_t find_above(const float* scores, int64_t from, int64_t n, float threshold) {
  constexpr int64_t step = 64;
  int64_t i = from;
  for (; i + step <= n; i += step) {
    int any = 0;
    for (int64_t j = i; j < i + step; ++j) any |= !(scores[j] <= threshold);
    if (any != 0) break;
  }
  while (i < n && scores[i] <= threshold) ++i;
  return i;
}

void block_maxima(const float* scores, int64_t n, int64_t block, float* out) {
  int64_t begin = 0;
  if (block == 8) {  // the released one
    for (; begin + 8 <= n; begin += 8) {
      float best[4];
      for (int i = 0; i < 4; ++i) {
        const float a = scores[begin + i];
        const float b = scores[begin + 4 + i];
        best[i] = a > b || b != b ? a : b;
      }
      float all = -__builtin_inff();
      for (float v : best) all = v > all ? v : all;
      *out++ = all;
    }
  }
  for (; begin < n; begin += block) {
    const int64_t end = begin + block < n ? begin + block : n;
    float best = -__builtin_inff();
    for (int64_t i = begin; i < end; ++i) best = scores[i] > best ? scores[i] : best;
    *out++ = best;
  }
}

}  // namespace

void add_choice_kernels(IndexKernels& to) {
  to.find_above = find_above;
  to.block_maxima = block_maxima;
}

}  // namespace fathom::fast::FATHOM_ISA
