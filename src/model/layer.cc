#include "model/layer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "model/trace_tensors.h"

namespace fathom {
namespace {

RouterScore router_score(ScoreFunc f) {
  switch (f) {
    case ScoreFunc::sqrtsoftplus:
      return RouterScore::sqrtsoftplus;
    case ScoreFunc::sigmoid:
      return RouterScore::sigmoid;
    case ScoreFunc::softmax:
      return RouterScore::softmax;
  }
  return RouterScore::sqrtsoftplus;
}

}  // namespace

Layer::Layer(const ModelConfig& config, const LayerWeights& weights, TensorView freqs, int64_t index)
    : config_(config),
      w_(weights),
      index_(index),
      num_chosen_(index < config.n_layers ? config.n_activated_experts : config.dspark_n_activated_experts),
      draft_feature_(-1),
      attention_(config, weights.attn, freqs, index) {
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
  ops.copy_in(ids, b.engram_ids[static_cast<size_t>(which)].data());
  FATHOM_TRY(ops.engram_gather({.ids = ids, .table = e.table, .out = rows}));
  FATHOM_TRY(ops.linear({.in = rows, .weight = e.wkv, .out = kv}));
  ops.engram_write({.kv = kv,
                    .q_weight = e.q_weight,
                    .k_weight = e.k_weight,
                    .norm_eps = config_.norm_eps,
                    .dead_rows = b.image_rows,
                    .stream = s.stream.head(n)});
  return {};
}

Status Layer::experts(Ops& ops, const Batch& b, Workspace& s) const {
  const int64_t n = b.rows;
  const TensorRef experts{s.experts.data, DType::i32, {n, num_chosen_}};
  const TensorRef weights{s.expert_weights.data, DType::f32, {n, num_chosen_}};
  FATHOM_TRY(ops.route({.x = s.x.head(n),
                        .gate = w_.ffn.gate,
                        .bias = w_.ffn.bias,
                        .image_bias = w_.ffn.bias_vl,
                        .image_rows = b.image_rows,
                        .score = router_score(config_.score_func),
                        .route_scale = config_.route_scale,
                        .experts = experts,
                        .weights = weights}));
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
