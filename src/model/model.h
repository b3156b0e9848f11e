// The model: a checkpoint in, logits and drafts out. One forward for any rows of any sequences at any
// position.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/config.h"
#include "model/draft.h"
#include "model/engram_layout.h"
#include "model/image_placement.h"
#include "model/layer.h"
#include "model/memory_tiers.h"
#include "model/sequence.h"
#include "model/tensor_table.h"
#include "model/trace.h"
#include "model/vision_tower.h"
#include "model/weights.h"
#include "model/workspace.h"
#include "ops/ops.h"
#include "text/token_map.h"
#include "text/tokenizer.h"

namespace fathom {

/// Rows to add to one sequence.
struct SequenceRows {
  Sequence* sequence = nullptr;
  std::span<const int32_t> ids;  // at least one token
  int64_t num_logits = 0;        // logits are wanted for the last so many of them
  /// All images of the sequence, or at least those that reach into these rows, in ascending order. Spans may
  /// begin before the rows and end after them. A position without an image is text, whatever its id.
  std::span<const ImagePlacement> images = {};
};

/// Logits in host memory, f32 [rows, vocab]: the rows asked for, sequence after sequence.
struct Logits {
  int64_t vocab_size = 0;
  std::vector<float> values;
  int64_t rows() const { return static_cast<int64_t>(values.size()) / vocab_size; }
  std::span<const float> row(int64_t i) const {
    return {values.data() + i * vocab_size, static_cast<size_t>(vocab_size)};
  }
};

/// Immutable after loading; several threads may run passes at once if their Ops, workspaces and sequences
/// differ.
class Model {
 public:
  /// Opens a model directory for `ops`, which must outlive the model. Without `memory`, headers and small
  /// tensors are read and everything else stays in the mapped files. With it, the process keeps to a budget:
  /// dense weights are read now, experts and n-gram rows as they are needed. Results are the same bits.
  /// Sequences have at most `context` positions, for which memory is planned; 0: as the configuration says.
  /// Errors name file, key or tensor; invalid_argument for a budget too small, cancelled.
  static Result<std::unique_ptr<Model>> load(const std::filesystem::path& directory, Ops& ops,
                                             const std::optional<MemoryOptions>& memory = {},
                                             int64_t context = 0);

  const ModelConfig& config() const { return config_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  const Checkpoint& checkpoint() const { return checkpoint_; }
  /// What the checkpoint holds, and why draft stages or vision are not available where they are not.
  const TensorTable& tensors() const { return tensors_; }

  /// How memory is spent, and what has been read; null where everything is in mapped files.
  const MemoryTiers* memory() const { return tiers_.get(); }

  /// Whether the checkpoint has draft stages that can run; tensors().draft_problem() says why not.
  bool can_draft() const { return draft_ != nullptr; }

  /// `drafting` (only if can_draft()): forward also keeps what begin_draft needs, for every row.
  Result<Sequence> new_sequence(bool drafting = false) const {
    FATHOM_CHECK(!drafting || can_draft());
    return Sequence::create(config_, ops_, drafting);
  }
  /// Activations for passes of at most `max_rows` rows at a time (longer inputs are cut).
  Result<Workspace> new_workspace(int64_t max_rows) const {
    return Workspace::create(config_, ops_, max_rows);
  }

  /// Adds rows to sequences (each at most once) and gives the logits asked for. A row's logits are the same
  /// bits however its sequence is cut into calls and whatever else is in them. `trace` needs a single
  /// sequence. Errors: invalid_argument (an id outside the vocabulary, images that do not fit the ids, a
  /// context too long; nothing has changed then), out_of_memory, format (a NaN scale or non-finite logits:
  /// the checkpoint is bad; the sequences cannot go on).
  Result<Logits> forward(Workspace& workspace, std::span<const SequenceRows> rows,
                         Trace* trace = nullptr) const;

  /// The span of an image, for SequenceRows::images. Errors: unsupported (the
  /// checkpoint has no usable vision; the message says why), and those of VisionTower::embed.
  Result<std::shared_ptr<const ImageEmbedding>> embed_image(const PreparedImage& image,
                                                            const EmbedImageHooks& hooks = {}) const;

  /// Drafts for several sequences at once, each from new_sequence(true): DraftModel::begin and next. What is
  /// drafted for a sequence does not depend on the others, and leaves no trace in any. Errors: out_of_memory,
  /// and format for damaged draft weights; the sequences can go on without drafts.
  Result<DraftBlock> begin_draft(Workspace& workspace, std::span<const DraftRequest> requests,
                                 int64_t depth) const;
  Result<DraftStep> next_draft(DraftBlock& block, std::span<const int32_t> previous) const;

 private:
  Model(ModelConfig config, Tokenizer tokenizer, TokenMap token_map, EngramLayout engram,
        Checkpoint checkpoint, TensorTable tensors, Ops& ops);
  Status fill_memory(const MemoryOptions& options);
  Status prepare_rope();
  void make_layers();
  Error with_file(Error error) const;
  Status check_rows(std::span<const SequenceRows> rows) const;
  Status run_chunk(Workspace& workspace, std::span<const SequenceRows> chunk, Trace* trace,
                   Logits& logits) const;
  Batch make_batch(Workspace& workspace, std::span<const SequenceRows> chunk, Trace* trace) const;
  void mark_images(Workspace& workspace, Batch& batch) const;
  void hash_ngrams(Batch& batch, std::span<const SequenceRows> chunk) const;
  void read_ahead(Batch& batch, std::span<const int32_t> ids) const;
  Status head(Workspace& workspace, const Batch& batch, std::span<const SequenceRows> chunk,
              Logits& logits) const;

  ModelConfig config_;
  Tokenizer tokenizer_;
  TokenMap token_map_;
  EngramLayout engram_;
  Checkpoint checkpoint_;
  TensorTable tensors_;
  Ops& ops_;
  std::unique_ptr<MemoryTiers> tiers_;
  ModelWeights weights_;
  std::optional<VisionTower> vision_;
  Buffer rope_memory_;
  TensorRef window_freqs_, compressed_freqs_;  // f32 [rope_head_dim / 2]: ratio 0, ratio > 0
  std::vector<Layer> layers_;
  std::unique_ptr<DraftModel> draft_;  // null where there are no usable stages
};

}  // namespace fathom
