// Routing and the expert layer (spec 1, MoE).
#include <atomic>
#include <numeric>
#include <vector>

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

Status expert_layer(const Context& context, const ExpertLayerParams& p) {
  const int64_t rows = p.x.shape[0];
  const int64_t dim = p.x.shape[1];
  const int64_t k = p.experts.shape[1];
  const int32_t* experts = elements<int32_t>(p.experts);
  const float* weights = elements<float>(p.weights);
  float* x = context.scratch.floats(Scratch::input, rows * dim);
  prepare_input(context, elements<bf16>(p.x), rows, dim, true, x);

  struct Use {
    int64_t row;
    float weight;
  };
  std::vector<std::vector<Use>> uses(p.routed.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < k; ++i)
      uses[static_cast<size_t>(experts[r * k + i])].push_back({r, weights[r * k + i]});

  const auto read_ahead = [](const ExpertWeights& e) {
    for (const Weight* w : {&e.w1, &e.w3, &e.w2}) will_need(*w);
  };
  for (size_t e = 0; e < uses.size(); ++e)
    if (!uses[e].empty()) read_ahead(p.routed[e]);
  read_ahead(*p.shared);

  float* sum = context.scratch.floats(Scratch::sum, rows * dim);
  float* result = context.scratch.floats(Scratch::result, rows * dim);
  std::fill_n(sum, rows * dim, 0.0f);
  std::vector<float> row_weights;
  for (size_t e = 0; e < uses.size(); ++e) {
    if (uses[e].empty()) continue;
    const auto count = static_cast<int64_t>(uses[e].size());
    float* gathered = context.scratch.floats(Scratch::gathered, count * dim);
    row_weights.clear();
    for (const Use& use : uses[e]) {
      std::copy_n(x + use.row * dim, dim, gathered + static_cast<int64_t>(row_weights.size()) * dim);
      row_weights.push_back(use.weight);
    }
    FATHOM_TRY(expert(context, p.routed[e], gathered, count, row_weights.data(), p.swiglu_limit, result));
    for (int64_t i = 0; i < count; ++i) {
      float* row = sum + uses[e][static_cast<size_t>(i)].row * dim;
      for (int64_t d = 0; d < dim; ++d) row[d] += result[i * dim + d];
    }
  }
  FATHOM_TRY(expert(context, *p.shared, x, rows, nullptr, p.swiglu_limit, result));
  bf16* out = elements<bf16>(p.out);
  for (int64_t i = 0; i < rows * dim; ++i) out[i] = to_bf16(sum[i] + result[i]);
  return {};
}

}  // namespace fathom::cpu
