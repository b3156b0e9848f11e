// Routing and the expert layer (spec 1, MoE).
#include <atomic>
#include <numeric>
#include <vector>

#include "backend/cpu/expert_uses.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/multiply.h"
#include "tensor/quantize.h"

namespace fathom::cpu {

void score_logits(RouterScore kind, double* s, int64_t n) {
  if (kind == RouterScore::softmax) {
    const double largest = *std::max_element(s, s + n);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += s[i] = std::exp(s[i] - largest);
    for (int64_t i = 0; i < n; ++i) s[i] /= sum;
    return;
  }
  for (int64_t i = 0; i < n; ++i)
    s[i] = kind == RouterScore::sigmoid ? sigmoid(s[i])
                                        : std::sqrt(s[i] > 20 ? s[i] : std::log1p(std::exp(s[i])));
}

float swiglu(float gate, float up, double limit, float weight) {
  auto g = static_cast<double>(gate);
  auto u = static_cast<double>(up);
  if (limit > 0) {
    u = std::clamp(u, -limit, limit);
    g = std::min(g, limit);
  }
  return round_bf16(static_cast<float>(g * sigmoid(g) * u) * weight);
}

namespace {

// One expert on `rows` prepared inputs (f32 [rows, dim] on the FP8 grid): bf16 values as float [rows, dim] to
// `out`. `weight` (f32 [rows]) may be null: all ones.
Status expert(const Context& context, const ExpertWeights& e, const float* x, int64_t rows,
              const float* weight, double limit, float* out) {
  const int64_t dim = e.w1.in();
  const int64_t inter = e.w1.out();
  float* gate = context.scratch.floats(Scratch::gate, rows * inter);
  float* up = context.scratch.floats(Scratch::up, rows * inter);
  float* hidden = context.scratch.floats(Scratch::hidden, rows * inter);
  const auto rounded = [](float* to, int64_t columns) {
    return [=](int64_t r, int64_t o, double v) { to[r * columns + o] = to_float(to_bf16(v)); };
  };
  FATHOM_TRY(multiply(context, x, rows, dim, e.w1, 0, inter, rounded(gate, inter)));
  FATHOM_TRY(multiply(context, x, rows, dim, e.w3, 0, inter, rounded(up, inter)));
  context.pool.parallel_for(rows, 4, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = hidden + r * inter;
      for (int64_t i = 0; i < inter; ++i)
        row[i] = swiglu(gate[r * inter + i], up[r * inter + i], limit, weight == nullptr ? 1.0f : weight[r]);
      round_to_fp8_grid(row, inter);
    }
  });
  return multiply(context, hidden, rows, inter, e.w2, 0, dim, rounded(out, dim));
}

}  // namespace

Status route(const Context& context, const RouteParams& p) {
  const int64_t rows = p.x.shape[0];
  const int64_t dim = p.x.shape[1];
  const int64_t n = p.gate.shape[0];
  const int64_t k = p.experts.shape[1];
  float* x = context.scratch.floats(Scratch::input, rows * dim);
  std::vector<float> logits(static_cast<size_t>(rows * n));
  prepare_input(context, elements<bf16>(p.x), rows, dim, false, x);
  const Status done =
      multiply(context, x, rows, dim, Weight{p.gate, {}, {}}, 0, n, [&](int64_t r, int64_t o, double v) {
        logits[static_cast<size_t>(r * n + o)] = static_cast<float>(v);
      });
  FATHOM_CHECK(done.has_value());  // a plain weight has no scales
  std::vector<float> bias(static_cast<size_t>(n));
  load_floats(p.bias, 0, n, bias.data());
  std::vector<float> image_bias = bias;
  if (!p.image_bias.empty()) load_floats(p.image_bias, 0, n, image_bias.data());
  const uint8_t* image_rows = p.image_rows.empty() ? nullptr : elements<uint8_t>(p.image_rows);
  int32_t* experts = elements<int32_t>(p.experts);
  float* weights = elements<float>(p.weights);
  std::atomic<bool> bad_score{false};
  context.pool.parallel_for(rows, 8, [&](int64_t begin, int64_t end) {
    std::vector<double> s(static_cast<size_t>(n));
    std::vector<float> biased(static_cast<size_t>(n));
    std::vector<int32_t> order(static_cast<size_t>(n));
    for (int64_t r = begin; r < end; ++r) {
      std::copy_n(logits.begin() + r * n, n, s.begin());
      score_logits(p.score, s.data(), n);
      const std::vector<float>& b = image_rows != nullptr && image_rows[r] ? image_bias : bias;
      for (size_t i = 0; i < biased.size(); ++i) {
        const auto v = static_cast<float>(s[i] + static_cast<double>(b[i]));
        if (v != v) bad_score = true;
        biased[i] = v == v ? v : -INFINITY;  // the order below needs numbers
      }
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](int32_t a, int32_t c) {
        const float sa = biased[static_cast<size_t>(a)];
        const float sc = biased[static_cast<size_t>(c)];
        return sa > sc || (sa == sc && a < c);
      });
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += s[static_cast<size_t>(order[static_cast<size_t>(i)])];
      for (int64_t i = 0; i < k; ++i) {
        const int32_t e = order[static_cast<size_t>(i)];
        double w = s[static_cast<size_t>(e)];
        if (k > 1) w /= sum + 1e-20;
        experts[r * k + i] = e;
        weights[r * k + i] = static_cast<float>(w * p.route_scale);
      }
    }
  });
  if (bad_score) return fail(ErrorCode::format, "{}: expected router scores, found NaN", p.gate.name);
  return {};
}

namespace {

// Adds up a row's results (bf16 values as float, by slot) in ascending order of experts, the shared one last.
void sum_experts(const Context& context, const ExpertLayerParams& p, const float* results,
                 const float* shared) {
  const int64_t dim = p.x.shape[1];
  bf16* out = elements<bf16>(p.out);
  context.pool.parallel_for(p.x.shape[0], 8, [&](int64_t begin, int64_t end) {
    std::vector<float> sum(static_cast<size_t>(dim));
    for (int64_t r = begin; r < end; ++r) {
      std::fill(sum.begin(), sum.end(), 0.0f);
      for (int64_t slot : ascending_slots(p, r))
        for (size_t d = 0; d < sum.size(); ++d) sum[d] += results[slot * dim + static_cast<int64_t>(d)];
      for (int64_t d = 0; d < dim; ++d)
        out[r * dim + d] = to_bf16(sum[static_cast<size_t>(d)] + shared[r * dim + d]);
    }
  });
}

void read_ahead(const ExpertWeights& e) {
  for (const Weight* w : {&e.w1, &e.w3, &e.w2}) will_need(*w);
}

}  // namespace

Status expert_layer(const Context& context, const ExpertLayerParams& p) {
  const int64_t rows = p.x.shape[0];
  const int64_t dim = p.x.shape[1];
  const int64_t k = p.experts.shape[1];
  const ExpertUses uses(p);
  const std::unique_ptr<ExpertLease> lease = p.routed->take(uses.experts);
  float* x = context.scratch.floats(Scratch::input, rows * dim);
  prepare_input(context, elements<bf16>(p.x), rows, dim, true, x);

  float* results = context.scratch.floats(Scratch::sum, rows * k * dim);  // by slot
  float* shared = context.scratch.floats(Scratch::shared, rows * dim);
  float* result = context.scratch.floats(Scratch::result, rows * dim);  // of one routed expert
  std::vector<float> row_weights;
  // The shared expert is always in memory: reads of the others go on meanwhile.
  read_ahead(*p.shared);
  FATHOM_TRY(expert(context, *p.shared, x, rows, nullptr, p.swiglu_limit, shared));
  for (;;) {
    FATHOM_ASSIGN(const std::span<const LoadedExpert> batch, lease->next());
    if (batch.empty()) break;
    for (const LoadedExpert& e : batch) read_ahead(*e.weights);
    for (const LoadedExpert& e : batch) {
      const std::vector<ExpertUse>& use = uses.of(e.index);
      const auto count = static_cast<int64_t>(use.size());
      float* gathered = context.scratch.floats(Scratch::gathered, count * dim);
      row_weights.clear();
      for (int64_t i = 0; i < count; ++i) {
        std::copy_n(x + use[static_cast<size_t>(i)].row * dim, dim, gathered + i * dim);
        row_weights.push_back(use[static_cast<size_t>(i)].weight);
      }
      FATHOM_TRY(expert(context, *e.weights, gathered, count, row_weights.data(), p.swiglu_limit, result));
      for (int64_t i = 0; i < count; ++i)
        std::copy_n(result + i * dim, dim, results + use[static_cast<size_t>(i)].slot * dim);
    }
  }
  sum_experts(context, p, results, shared);
  return {};
}

}  // namespace fathom::cpu
