// One block: hyper-connections around attention and the expert layer (spec 1, Block).
#pragma once

#include "model/attention.h"
#include "model/expert_cache.h"

namespace fathom {

/// The layer that runs next, whose choice of experts can be guessed while they are still to be read.
struct NextLayer {
  const LayerWeights* weights = nullptr;  // null: there is none, or nothing is read
  ExpertCache* experts = nullptr;
};

class Layer {
 public:
  /// Layer `index`; from n_layers on the draft stages.
  Layer(const ModelConfig& config, const LayerWeights& weights, TensorView freqs, int64_t index,
        NextLayer next = {});

  /// s.stream [rows, hc, dim] and s.pre [rows, hc] in place: the stream after the block, and the coefficients
  /// that the next sub-layer collapses it with.
  Status forward(Ops& ops, const Batch& b, Workspace& s) const;

  const Attention& attention() const { return attention_; }

 private:
  Status engram(Ops& ops, const Batch& b, Workspace& s) const;
  Status experts(Ops& ops, const Batch& b, Workspace& s) const;
  RouteParams route_params(const MoeWeights& ffn, const Batch& b) const;
  void expect_experts(Ops& ops, const Batch& b, Workspace& s) const;

  const ModelConfig& config_;
  const LayerWeights& w_;
  int64_t index_;
  int64_t num_chosen_;     // experts a token takes
  int64_t draft_feature_;  // index in dspark_target_layer_ids, or -1
  Attention attention_;
  NextLayer next_;
};

}  // namespace fathom
