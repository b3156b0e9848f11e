// One block: hyper-connections around attention and the expert layer (spec 1, Block).
#pragma once

#include "model/attention.h"

namespace fathom {

class Layer {
 public:
  Layer(const ModelConfig& config, const LayerWeights& weights, TensorView freqs, int64_t index)
      : config_(config), w_(weights), index_(index), attention_(config, weights.attn, freqs, index) {}

  /// s.stream [rows, hc, dim] and s.pre [rows, hc] in place: the stream after the block, and the coefficients
  /// that the next sub-layer collapses it with.
  Status forward(Ops& ops, const Batch& b, Workspace& s) const;

 private:
  Status engram(Ops& ops, const Batch& b, Workspace& s) const;
  Status experts(Ops& ops, const Batch& b, Workspace& s) const;

  const ModelConfig& config_;
  const LayerWeights& w_;
  int64_t index_;
  Attention attention_;
};

}  // namespace fathom
