// The vision tower's weights: one named member per tensor, viewing the mapped checkpoint in place (spec 5).
#pragma once

#include <vector>

#include "model/config.h"
#include "model/tensor_table.h"
#include "tensor/weight.h"

namespace fathom {

struct BiasedWeight {
  Weight weight;    // [out, in]
  TensorView bias;  // [out]
};

struct VisionBlockWeights {
  TensorView norm1, norm2;  // [vision dim]
  BiasedWeight wqkv;        // [3 * vision dim, vision dim]: q, k, v
  BiasedWeight wo;          // [vision dim, vision dim]
  Weight w1;                // [2 * inter_dim, vision dim]: gate, up
  Weight w2;                // [vision dim, inter_dim]
};

struct VisionWeights {
  BiasedWeight patch_embed;  // [vision dim, 3 * patch_size^2]
  std::vector<VisionBlockWeights> blocks;
  TensorView norm;                                   // [vision dim]
  BiasedWeight aligner_w1;                           // [dim, vision dim * downsample_ratio^2]
  BiasedWeight aligner_w2;                           // [dim, dim]
  TensorView image_start, image_newline, image_end;  // [1, dim]
};

/// Gathers the weights of a configuration with vision from a table that has them (vision_available()).
VisionWeights bind_vision_weights(const VisionConfig& config, const TensorTable& tensors);

}  // namespace fathom
