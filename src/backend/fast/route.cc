// The choice of experts from router logits (spec 1, MoE).
#include "backend/fast/route.h"

#include <atomic>

#include "backend/cpu/context.h"
#include "backend/fast/operations.h"
#include "backend/fast/product.h"
#include "backend/fast/weights.h"

namespace fathom::fast {

using cpu::elements;

Status choose_experts(const Context& context, const RouteParams& p, const float* logits) {
  const int64_t rows = p.x.shape[0];
  const int64_t n = p.gate.shape[0];
  const int64_t k = p.experts.shape[1];
  FATHOM_CHECK_LE(k, n);
  const float* bias = floats_of(context, p.bias, n, Scratch::weights);
  const float* image_bias =
      p.image_bias.empty() ? bias : floats_of(context, p.image_bias, n, Scratch::more_weights);
  const uint8_t* image_rows = p.image_rows.empty() ? nullptr : elements<uint8_t>(p.image_rows);
  int32_t* experts = elements<int32_t>(p.experts);
  float* weights = elements<float>(p.weights);
  const RouteRow row{p.score, n, k, p.route_scale};
  std::atomic<bool> numbers{true};
  context.pool.parallel_for_workers(rows, 8, [&](int64_t begin, int64_t end, int worker) {
    auto* work =
        context.worker[static_cast<size_t>(worker)].take<float>(Scratch::scores, 2 * ((n + 15) / 16 * 16));
    for (int64_t r = begin; r < end; ++r) {
      const bool image = image_rows != nullptr && image_rows[r];
      if (!context.rows.route_row(row, logits + r * n, image ? image_bias : bias, work, experts + r * k,
                                  weights + r * k))
        numbers = false;
    }
  });
  if (!numbers) return fail(ErrorCode::format, "{}: expected router scores, found NaN", p.gate.name);
  return {};
}

Status route(const Context& context, const RouteParams& p) {
  const int64_t rows = p.x.shape[0];
  const int64_t dim = p.x.shape[1];
  const int64_t n = p.gate.shape[0];
  const StoredMatrix gate = stored_matrix({p.gate, {}, {}});
  const std::vector<ArrangedRows> x =
      arrange_rows(context, elements<bf16>(p.x), dim, rows, dim, gate.format, false);
  auto* logits = context.scratch.take<float>(Scratch::products, rows * n);
  product(context, gate, n, x, [&](int64_t first, int64_t count, const float* sums) {
    for (int64_t r = 0; r < rows; ++r) std::copy_n(sums + r * count, count, logits + r * n + first);
  });
  return choose_experts(context, p, logits);
}

}  // namespace fathom::fast
