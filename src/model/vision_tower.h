// From an image's patches to the rows of its span: the ViT and the aligner (spec 5).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "model/config.h"
#include "model/image_embedding.h"
#include "model/trace.h"
#include "model/vision_weights.h"
#include "ops/ops.h"

namespace fathom {

/// A decoded and resized image, cut into square patches of the configuration's patch_size.
struct ImagePatches {
  int64_t patch_rows = 0;
  int64_t patch_cols = 0;
  /// [patch_rows * patch_cols, 3 * patch_size^2], patches in reading order; within one the channel (red,
  /// green, blue) is outermost, then the row, then the column. 0 is black, 255 full.
  std::span<const uint8_t> levels;
};

/// Called while an image is embedded, on its thread. Each may be empty.
struct EmbedImageHooks {
  std::function<void(int64_t done, int64_t total)> progress = {};  // blocks of the tower
  std::function<bool()> cancelled = {};                            // asked before every chunk of patches
  Trace* trace = nullptr;                                          // gets vision.features
};

class VisionTower {
 public:
  /// What is referred to must outlive the tower. `config` has vision, and `tensors` its weights. Everything
  /// but the stream and qkv, which attention needs whole, is held for `chunk_rows` patches at a time; their
  /// number changes no result. The default is enough to pay for reading the weights once a chunk.
  VisionTower(const ModelConfig& config, const TensorTable& tensors, Ops& ops, int64_t chunk_rows = 256);

  /// The span of `image`, known by `identity` from then on. Takes memory for 4 values of the tower's width a
  /// patch while it runs. Errors: invalid_argument (sizes that do not fit together, more tokens than the
  /// configuration's max_image_tokens), out_of_memory, cancelled, format (embeddings that are not finite:
  /// the checkpoint is bad).
  Result<std::shared_ptr<const ImageEmbedding>> embed(const ImagePatches& image,
                                                      const ImageIdentity& identity,
                                                      const EmbedImageHooks& hooks = {}) const;

 private:
  class Pass;

  const VisionConfig& config_;
  int64_t dim_;  // of the text model
  int64_t chunk_rows_;
  Ops& ops_;
  VisionWeights weights_;
};

}  // namespace fathom
