// DSpark: draft stages that guess the next tokens from the main model's features, a block at a time (spec 4).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/batch.h"
#include "model/config.h"
#include "model/layer.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace fathom {

/// A sequence that drafts, and the known token after its last position.
struct DraftRequest {
  Sequence* sequence = nullptr;  // holds at least one position; is not changed
  int32_t token = 0;
};

/// What the stages say about the next `depth` tokens of several sequences, before those in between are known.
struct DraftBlock {
  int64_t requests = 0;
  int64_t depth = 0;
  int64_t step = 0;  // the next draft
  Buffer memory;
  TensorRef x;           // bf16 [requests, depth, dim]
  TensorRef logits;      // f32 [requests, depth, vocab]
  TensorRef previous;    // i32 [requests]
  TensorRef confidence;  // f32 [requests]
};

/// One draft of every request, in host memory.
struct DraftStep {
  int64_t vocab_size = 0;
  std::vector<float> logits;      // f32 [requests, vocab]
  std::vector<float> confidence;  // [requests]: the logit of "this draft will be accepted"
  std::span<const float> row(int64_t request) const {
    return {logits.data() + request * vocab_size, static_cast<size_t>(vocab_size)};
  }
};

/// The stages `mtp.*` and their heads. Immutable.
class DraftModel {
 public:
  /// `config` and `weights` (whose `draft` is there) must outlive it; `freqs` is ratio 0's table. `experts`:
  /// where those of the stages are read, or null.
  DraftModel(const ModelConfig& config, const ModelWeights& weights, TensorView freqs, ExpertCache* experts);

  /// After a main pass over `b`, which left s.main_hidden: window keys of its positions, in every stage of
  /// every sequence that drafts.
  Status append(Ops& ops, const Batch& b, Workspace& s) const;

  /// Runs the stages over one block for each request; `depth` (1 to dspark_block_size) drafts are prepared.
  Result<DraftBlock> begin(Ops& ops, Workspace& s, std::span<const DraftRequest> requests,
                           int64_t depth) const;

  /// The next draft of the block, given the token before it of every request: the request's own token at
  /// first, then what was chosen from the step before. At most `depth` times. Errors: format for logits that
  /// are not finite.
  Result<DraftStep> next(Ops& ops, DraftBlock& block, std::span<const int32_t> previous) const;

 private:
  Result<DraftBlock> allocate(Ops& ops, int64_t requests, int64_t depth) const;
  Status run_stages(Ops& ops, Workspace& s, std::span<const DraftRequest> requests) const;

  const ModelConfig& config_;
  const ModelWeights& weights_;
  const DraftWeights& w_;
  std::vector<Layer> stages_;
};

}  // namespace fathom
