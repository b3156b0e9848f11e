// One layer's attention: window keys, its own or borrowed compressed keys, its own or borrowed choice (spec
// 1).
#pragma once

#include "base/result.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace fathom {

/// What a layer is to the compressed caches, worked out once from the configuration.
struct AttentionPlan {
  int64_t layer = 0;
  int64_t ratio = 0;    // 0: window only
  int64_t source = -1;  // index into kv_source_layers of the KV this layer reads
  CandidateRole candidates = CandidateRole::none;

  static AttentionPlan of(const ModelConfig& config, int64_t layer);
};

class Attention {
 public:
  Attention(const ModelConfig& config, const AttentionWeights& weights, TensorView freqs, int64_t layer)
      : config_(config), w_(weights), freqs_(freqs), plan_(AttentionPlan::of(config, layer)) {}

  /// s.x [rows, dim] -> s.y [rows, dim]; adds the rows to the sequences' caches (unless they are draft
  /// blocks) and, in an index source, leaves the choice in s.picked for the layers above.
  Status run(Ops& ops, const Batch& b, Workspace& s) const;

  /// Of a draft stage: s.x [rows, dim], the draft features, become window keys of the sequences that draft.
  Status append_keys(Ops& ops, const Batch& b, Workspace& s) const;

 private:
  Status window_keys(Ops& ops, const Batch& b, Workspace& s) const;
  Status compress(Ops& ops, const Batch& b, Workspace& s) const;
  Status select(Ops& ops, const Batch& b, Workspace& s) const;
  void trace(Ops& ops, const Batch& b, const Workspace& s) const;

  const ModelConfig& config_;
  const AttentionWeights& w_;
  TensorView freqs_;  // f32 [rope_head_dim / 2]
  AttentionPlan plan_;
};

}  // namespace fathom
