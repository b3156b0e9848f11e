#include "model/layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "model/trace_tensors.h"

namespace fathom {
Layer::Layer(const ModelConfig& config, const LayerWeights& weights, TensorView freqs, int64_t index,
             NextLayer next)
    : config_(config),
      w_(weights),
      index_(index),
      num_chosen_(index < config.n_layers ? config.n_activated_experts : config.dspark_n_activated_experts),
      draft_feature_(-1),
      attention_(config, weights.attn, freqs, index),
      next_(next) {
  const std::vector<int64_t>& targets = config.dspark_target_layer_ids;
  const auto found = std::find(targets.begin(), targets.end(), index);
  if (found != targets.end()) draft_feature_ = found - targets.begin();
}

Status Layer::forward(Ops& ops, const Batch& b, Workspace& s) const {
  const int64_t n = b.rows;
  const TensorRef stream = s.stream.head(n);  // [rows, hc, dim]
  const TensorRef post = s.post.head(n);      // [rows, hc]
  const TensorRef comb = s.comb.head(n);      // [rows, hc, hc]
  const TensorRef x = s.x.head(n);            // [rows, dim]
  const TensorRef y = s.y.head(n);            // [rows, dim]
  const auto mix = [&](const HyperWeights& w) {
    ops.hyper_mix({.stream = stream,
                   .fn = w.fn,
                   .base = w.base,
                   .scale = w.scale,
                   .norm_eps = config_.norm_eps,
                   .hc_eps = config_.hc_eps,
                   .sinkhorn_iters = config_.hc_sinkhorn_iters,
                   .pre = s.next_pre.head(n),
                   .post = post,
                   .comb = comb});
  };
  const auto collapse = [&](const TensorView& norm) {
    ops.collapse_norm(
        {.stream = stream, .pre = s.pre.head(n), .weight = norm, .norm_eps = config_.norm_eps, .out = x});
    std::swap(s.pre, s.next_pre);  // the pre just computed is the next sub-layer's
  };

  FATHOM_TRY(engram(ops, b, s));
  if (draft_feature_ >= 0 && b.drafting())
    ops.draft_feature(
        {.stream = stream, .first_column = draft_feature_ * config_.dim, .out = s.main_hidden.head(n)});
  mix(w_.hc_attn);
  collapse(w_.attn_norm);
  FATHOM_TRY(attention_.run(ops, b, s));
  ops.expand({.y = y, .post = post, .comb = comb, .stream = stream});

  mix(w_.hc_ffn);
  collapse(w_.ffn_norm);
  FATHOM_TRY(experts(ops, b, s));
  ops.expand({.y = y, .post = post, .comb = comb, .stream = stream});

  if (b.trace != nullptr) {
    trace_tensor(*b.trace, ops, fmt::format("{}.out", index_), stream);
    trace_tensor(*b.trace, ops, fmt::format("{}.pre", index_), s.pre.head(n));
    b.trace->after_layer(index_, ops, stream, s.pre.head(n));
  }
  return {};
}

Status Layer::engram(Ops& ops, const Batch& b, Workspace& s) const {
  if (!w_.engram) return {};
  const EngramWeights& e = *w_.engram;
  const int64_t n = b.rows;
  const int64_t which = config_.engram_index(index_);
  const TensorRef rows = s.engram_rows.head(n);  // [rows, columns * engram_head_dim]
  const TensorRef kv = s.engram_kv.head(n);      // [rows, (hc + 1) * dim]
  const TensorRef ids = s.engram_ids.head(n);    // [rows, columns]
  const std::vector<int64_t>& table_rows = b.engram_ids[static_cast<size_t>(which)];
  if (b.engram_rows == nullptr) {
    ops.copy_in(ids, table_rows.data());
    FATHOM_TRY(ops.engram_gather({.ids = ids, .table = e.table, .out = rows}));
  } else {
    std::vector<int64_t> slots(table_rows.size());
    FATHOM_ASSIGN(const Weight cached, b.engram_rows->take(which, table_rows, slots));
    ops.copy_in(ids, slots.data());
    FATHOM_TRY(ops.engram_gather({.ids = ids, .table = cached, .out = rows}));
  }
  FATHOM_TRY(ops.linear({.in = rows, .weight = e.wkv, .out = kv}));
  ops.engram_write({.kv = kv,
                    .q_weight = e.q_weight,
                    .k_weight = e.k_weight,
                    .norm_eps = config_.norm_eps,
                    .dead_rows = b.image_rows,
                    .stream = s.stream.head(n)});
  return {};
}

RouteParams Layer::route_params(const MoeWeights& ffn, const Batch& b) const {
  return {.x = {},
          .gate = ffn.gate,
          .bias = ffn.bias,
          .image_bias = ffn.bias_vl,
          .image_rows = b.image_rows,
          .score = config_.score_func,
          .route_scale = config_.route_scale,
          .experts = {},
          .weights = {}};
}

// What the next layer would choose if the stream stayed as it is: most of its choice, since a layer adds
// little to the stream.
void Layer::expect_experts(Ops& ops, const Batch& b, Workspace& s) const {
  if (next_.weights == nullptr || next_.experts->holds_all()) return;
  const int64_t n = b.rows;
  const TensorRef x = s.y.head(n);  // free until the experts write to it
  ops.collapse_norm({.stream = s.stream.head(n),
                     .pre = s.next_pre.head(n),
                     .weight = next_.weights->ffn_norm,
                     .norm_eps = config_.norm_eps,
                     .out = x});
  RouteParams p = route_params(next_.weights->ffn, b);
  p.x = x;
  p.experts = {s.expected_experts.data, DType::i32, {n, num_chosen_}};
  p.weights = {s.expected_weights.data, DType::f32, {n, num_chosen_}};
  if (!ops.route(p)) return;  // bad weights: the layer itself will say so
  const auto count = static_cast<size_t>(n * num_chosen_);
  std::vector<int32_t> chosen(count);
  std::vector<float> weights(count);
  ops.copy_out(chosen.data(), p.experts);
  ops.copy_out(weights.data(), p.weights);
  // What many rows want much is what the layer's own router will most surely want.
  std::vector<std::pair<float, int32_t>> wanted(static_cast<size_t>(next_.weights->ffn.gate.shape[0]));
  for (size_t e = 0; e < wanted.size(); ++e) wanted[e].second = static_cast<int32_t>(e);
  for (size_t i = 0; i < count; ++i) wanted[static_cast<size_t>(chosen[i])].first -= weights[i];
  std::sort(wanted.begin(), wanted.end());
  std::vector<int32_t> likeliest;
  for (const auto& [negative_weight, e] : wanted)
    if (negative_weight < 0) likeliest.push_back(e);
  next_.experts->expect(index_ + 1, likeliest);
}

Status Layer::experts(Ops& ops, const Batch& b, Workspace& s) const {
  const int64_t n = b.rows;
  const TensorRef experts{s.experts.data, DType::i32, {n, num_chosen_}};
  const TensorRef weights{s.expert_weights.data, DType::f32, {n, num_chosen_}};
  RouteParams p = route_params(w_.ffn, b);
  p.x = s.x.head(n);
  p.experts = experts;
  p.weights = weights;
  FATHOM_TRY(ops.route(p));
  expect_experts(ops, b, s);
  FATHOM_TRY(ops.expert_layer({.x = s.x.head(n),
                               .experts = experts,
                               .weights = weights,
                               .routed = w_.ffn.routed.get(),
                               .shared = &w_.ffn.shared,
                               .swiglu_limit = config_.swiglu_limit,
                               .out = s.y.head(n)}));
  if (b.trace != nullptr) {
    trace_tensor(*b.trace, ops, fmt::format("layers.{}.ffn.experts", index_), experts);
    trace_tensor(*b.trace, ops, fmt::format("layers.{}.ffn.expert_weights", index_), weights);
  }
  return {};
}

}  // namespace fathom
