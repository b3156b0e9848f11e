// From an image's patches to the rows of its span: the ViT and the aligner (spec 5).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "image/prepare.h"
#include "model/config.h"
#include "model/image_embedding.h"
#include "model/trace.h"
#include "model/vision_weights.h"
#include "ops/ops.h"

namespace fathom {

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

  /// The span of `image`. Takes memory for 4 values of the tower's width a
  /// patch while it runs. Errors: invalid_argument (sizes that do not fit together, more tokens than the
  /// configuration's max_image_tokens), out_of_memory, cancelled, format (embeddings that are not finite:
  /// the checkpoint is bad).
  Result<std::shared_ptr<const ImageEmbedding>> embed(const PreparedImage& image,
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
