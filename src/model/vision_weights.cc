#include "model/vision_weights.h"

#include <fmt/format.h>

namespace fathom {

VisionWeights bind_vision_weights(const VisionConfig& config, const TensorTable& tensors) {
  const auto plain = [&](const std::string& name) { return Weight{tensors.find(name + ".weight"), {}, {}}; };
  const auto biased = [&](const std::string& name) {
    return BiasedWeight{plain(name), tensors.find(name + ".bias")};
  };
  const auto row = [&](const char* name) {
    TensorView view = tensors.find(name);
    view.shape = Shape{1, view.shape[0]};
    return view;
  };
  VisionWeights w;
  w.patch_embed = biased("vision.patch_embed.proj");
  for (int64_t i = 0; i < config.n_layers; ++i) {
    const std::string name = fmt::format("vision.blocks.{}.", i);
    VisionBlockWeights& block = w.blocks.emplace_back();
    block.norm1 = tensors.find(name + "norm1.weight");
    block.norm2 = tensors.find(name + "norm2.weight");
    block.wqkv = biased(name + "attn.wqkv");
    block.wo = biased(name + "attn.wo");
    block.w1 = plain(name + "mlp.w1");
    block.w2 = plain(name + "mlp.w2");
  }
  w.norm = tensors.find("vision.norm.weight");
  w.aligner_w1 = biased("aligner.w1");
  w.aligner_w2 = biased("aligner.w2");
  w.image_start = row("image_start");
  w.image_newline = row("image_newline");
  w.image_end = row("image_end");
  return w;
}

}  // namespace fathom
