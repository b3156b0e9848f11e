// Router logits to experts and their weights (spec 1, MoE).
#include "backend/fast/simd/row_kernels.h"
#include "backend/fast/simd/vec.h"

namespace fathom::fast::FATHOM_ISA {
namespace {

void score_softmax(const float* logits, int64_t n, float* scores) {
  f32x16 largest = splat(-__builtin_inff());
  for_lanes(
      n, FATHOM_LANES {
        float last[16];
        for (float& v : last) v = -__builtin_inff();
        store(last, load(logits + i, lanes), lanes);
        largest = max(load(last), largest);
      });
  const f32x16 top = splat(max_lane(largest));
  for_lanes(
      n, FATHOM_LANES { store(scores + i, exp(load(logits + i, lanes) - top), lanes); });
  f32x16 total = splat(0.0f);
  for_lanes(
      n, FATHOM_LANES { total += load(scores + i, lanes); });
  const f32x16 all = splat(sum(total));
  for_lanes(
      n, FATHOM_LANES { store(scores + i, load(scores + i, lanes) / all, lanes); });
}

void score_row(const float* logits, int64_t n, RouterScore kind, float* scores) {
  if (kind == RouterScore::softmax) return score_softmax(logits, n, scores);
  if (kind == RouterScore::sigmoid) {
    for_lanes(
        n, FATHOM_LANES { store(scores + i, sigmoid(load(logits + i, lanes)), lanes); });
    return;
  }
  for_lanes(
      n, FATHOM_LANES { store(scores + i, sqrt_softplus(load(logits + i, lanes)), lanes); });
}

// The first of the largest among n (a multiple of 16) numbers; NaN are out of the game.
FATHOM_SIMD int64_t first_largest(const float* x, int64_t n) {
  f32x16 largest = splat(-__builtin_inff());
  for (int64_t i = 0; i < n; i += 16) largest = max(load(x + i), largest);
  const float top = max_lane(largest);
  int64_t at = 0;
  while (at < n && !(x[at] == top)) ++at;
  return at;
}

bool route_row(const RouteRow& p, const float* logits, const float* bias, float* work, int32_t* experts,
               float* weights) {
  const int64_t padded = (p.experts + 15) / 16 * 16;
  float* scores = work;
  float* biased = work + padded;
  const float nan = __builtin_nanf("");
  score_row(logits, p.experts, p.score, scores);
  bool numbers = true;
  for (int64_t i = p.experts; i < padded; ++i) biased[i] = nan;
  for_lanes(
      p.experts, FATHOM_LANES { store(biased + i, load(scores + i, lanes) + load(bias + i, lanes), lanes); });
  for (int64_t i = 0; i < p.experts; ++i) numbers &= biased[i] == biased[i];
  if (!numbers) return false;
  double total = 0;
  for (int64_t j = 0; j < p.chosen; ++j) {
    const int64_t e = first_largest(biased, padded);
    experts[j] = static_cast<int32_t>(e);
    biased[e] = nan;
    total += static_cast<double>(scores[e]);
  }
  for (int64_t j = 0; j < p.chosen; ++j) {
    auto w = static_cast<double>(scores[experts[j]]);
    if (p.chosen > 1) w /= total + 1e-20;
    weights[j] = static_cast<float>(w * p.scale);
  }
  return true;
}

}  // namespace

void add_route_kernels(RowKernels& to) { to.route_row = route_row; }

}  // namespace fathom::fast::FATHOM_ISA
