// Routing and the expert layer (spec 1, MoE).
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

// One expert on `rows` prepared inputs (f32 [rows, dim] on the FP8 grid): bf16 results [rows, dim].
// `weight` (f32 [rows]) may be null: all ones.
Status expert(const Context& context, const ExpertWeights& e, const float* x, int64_t rows,
              const float* weight, double limit, std::vector<bf16>& out) {
  const int64_t dim = e.w1.in();
  const int64_t inter = e.w1.out();
  std::vector<bf16> gate(static_cast<size_t>(rows * inter));
  std::vector<bf16> up(gate.size());
  FATHOM_TRY(multiply(context, x, rows, dim, e.w1, 0, inter, [&](int64_t r, int64_t o, double v) {
    gate[static_cast<size_t>(r * inter + o)] = to_bf16(v);
  }));
  FATHOM_TRY(multiply(context, x, rows, dim, e.w3, 0, inter, [&](int64_t r, int64_t o, double v) {
    up[static_cast<size_t>(r * inter + o)] = to_bf16(v);
  }));
  std::vector<float> hidden(gate.size());
  context.pool.parallel_for(rows, 4, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* row = hidden.data() + r * inter;
      for (int64_t i = 0; i < inter; ++i) {
        const auto at = static_cast<size_t>(r * inter + i);
        row[i] = swiglu(to_float(gate[at]), to_float(up[at]), limit, weight == nullptr ? 1.0f : weight[r]);
      }
      round_to_fp8_grid(row, inter);
    }
  });
  out.resize(static_cast<size_t>(rows * dim));
  return multiply(context, hidden.data(), rows, inter, e.w2, 0, dim, [&](int64_t r, int64_t o, double v) {
    out[static_cast<size_t>(r * dim + o)] = to_bf16(v);
  });
}

}  // namespace

void route(const Context& context, const RouteParams& p) {
  const int64_t rows = p.x.shape[0];
  const int64_t dim = p.x.shape[1];
  const int64_t n = p.gate.shape[0];
  const int64_t k = p.experts.shape[1];
  std::vector<float> x(static_cast<size_t>(rows * dim));
  std::vector<float> logits(static_cast<size_t>(rows * n));
  prepare_input(context, elements<bf16>(p.x), rows, dim, false, x.data());
  const Status done = multiply(context, x.data(), rows, dim, Weight{p.gate, {}, {}}, 0, n,
                               [&](int64_t r, int64_t o, double v) {
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
        biased[i] = v == v ? v : -INFINITY;  // a NaN is never preferred
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
}

Status expert_layer(const Context& context, const ExpertLayerParams& p) {
  const int64_t rows = p.x.shape[0];
  const int64_t dim = p.x.shape[1];
  const int64_t k = p.experts.shape[1];
  const int32_t* experts = elements<int32_t>(p.experts);
  const float* weights = elements<float>(p.weights);
  std::vector<float> x(static_cast<size_t>(rows * dim));
  prepare_input(context, elements<bf16>(p.x), rows, dim, true, x.data());

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

  std::vector<float> sum(static_cast<size_t>(rows * dim), 0.0f);
  std::vector<float> gathered;
  std::vector<float> gathered_weights;
  std::vector<bf16> result;
  for (size_t e = 0; e < uses.size(); ++e) {
    if (uses[e].empty()) continue;
    gathered.clear();
    gathered_weights.clear();
    for (const Use& use : uses[e]) {
      gathered.insert(gathered.end(), x.begin() + use.row * dim, x.begin() + (use.row + 1) * dim);
      gathered_weights.push_back(use.weight);
    }
    const auto count = static_cast<int64_t>(uses[e].size());
    FATHOM_TRY(expert(context, p.routed[e], gathered.data(), count, gathered_weights.data(), p.swiglu_limit,
                      result));
    for (int64_t i = 0; i < count; ++i) {
      float* row = sum.data() + uses[e][static_cast<size_t>(i)].row * dim;
      for (int64_t d = 0; d < dim; ++d) row[d] += to_float(result[static_cast<size_t>(i * dim + d)]);
    }
  }
  FATHOM_TRY(expert(context, *p.shared, x.data(), rows, nullptr, p.swiglu_limit, result));
  bf16* out = elements<bf16>(p.out);
  for (int64_t i = 0; i < rows * dim; ++i)
    out[i] = to_bf16(sum[static_cast<size_t>(i)] + to_float(result[static_cast<size_t>(i)]));
  return {};
}

}  // namespace fathom::cpu
