#include "model/weights.h"

#include <fmt/format.h>

namespace fathom {
namespace {

class Binder {
 public:
  Binder(const ModelConfig& config, const TensorTable& tensors, ExpertSources sources)
      : config_(config), tensors_(tensors), sources_(std::move(sources)) {}

  TensorView tensor(const std::string& name) const { return tensors_.find(name); }
  Weight plain(const std::string& name) const { return {tensor(name + ".weight"), {}, {}}; }
  Weight scaled(const std::string& name, BlockShape block) const {
    return {tensor(name + ".weight"), tensor(name + ".scale"), block};
  }
  Weight fp8(const std::string& name) const { return scaled(name, fp8_weight_block); }

  HyperWeights hyper(const std::string& name) const {
    return {tensor(name + "_fn"), tensor(name + "_base"), tensor(name + "_scale")};
  }

  ExpertWeights expert(const std::string& name, BlockShape block) const {
    return {scaled(name + ".w1", block), scaled(name + ".w2", block), scaled(name + ".w3", block)};
  }

  AttentionWeights attention(int64_t layer, const std::string& name) const {
    AttentionWeights w;
    w.wq_a = fp8(name + "wq_a");
    w.wq_b = fp8(name + "wq_b");
    w.wkv = fp8(name + "wkv");
    w.wo_a = fp8(name + "wo_a");
    w.wo_b = fp8(name + "wo_b");
    w.q_norm = tensor(name + "q_norm.weight");
    w.kv_norm = tensor(name + "kv_norm.weight");
    w.sink = tensor(name + "attn_sink");
    const bool kv_source = config_.is_kv_source(layer);
    if (kv_source) {
      CompressorWeights& c = w.compressor.emplace();
      c.wkv = plain(name + "compressor.wkv");
      if (config_.ratio(layer) > 1) c.wgate = plain(name + "compressor.wgate");
      c.norm = tensor(name + "compressor.norm.weight");
    }
    if (config_.is_index_source(layer)) {
      IndexerWeights& i = w.indexer.emplace();
      i.wq_b = fp8(name + "indexer.wq_b");
      i.weights_proj = plain(name + "indexer.weights_proj");
      if (kv_source) {
        i.wk = plain(name + "indexer.wk");
        i.k_norm = tensor(name + "indexer.k_norm.weight");
      }
    }
    return w;
  }

  std::vector<ExpertWeights> routed(const std::string& name, int64_t num_experts) const {
    std::vector<ExpertWeights> experts;
    for (int64_t e = 0; e < num_experts; ++e)
      experts.push_back(expert(fmt::format("{}ffn.experts.{}", name, e), fp4_weight_block));
    return experts;
  }

  MoeWeights moe(int64_t index, const std::string& block_name, int64_t num_experts) {
    const std::string name = block_name + "ffn.";
    MoeWeights w;
    w.gate = tensor(name + "gate.weight");
    w.bias = tensor(name + "gate.bias");
    if (index < static_cast<int64_t>(sources_.size()))
      w.routed = std::move(sources_[static_cast<size_t>(index)]);
    else
      w.routed = std::make_unique<ResidentExperts>(routed(block_name, num_experts));
    w.shared = expert(name + "shared_experts", fp8_weight_block);
    return w;
  }

  LayerWeights block(int64_t index, const std::string& name, int64_t num_experts) {
    LayerWeights w;
    w.hc_attn = hyper(name + "hc_attn");
    w.hc_ffn = hyper(name + "hc_ffn");
    w.attn_norm = tensor(name + "attn_norm.weight");
    w.ffn_norm = tensor(name + "ffn_norm.weight");
    w.attn = attention(index, name + "attn.");
    w.ffn = moe(index, name, num_experts);
    return w;
  }

  Weight engram_table(int64_t layer) const {
    return scaled(fmt::format("layers.{}.engram.embed", layer), engram_table_block);
  }

  LayerWeights layer(int64_t index) {
    const std::string name = fmt::format("layers.{}.", index);
    LayerWeights w = block(index, name, config_.n_routed_experts);
    if (tensors_.vision_available()) w.ffn.bias_vl = tensor(name + "ffn.gate.bias_vl");
    if (config_.engram_index(index) >= 0) {
      EngramWeights& e = w.engram.emplace();
      e.table = engram_table(index);
      e.wkv = fp8(name + "engram.wkv");
      e.q_weight = tensor(name + "engram.q_weight");
      e.k_weight = tensor(name + "engram.k_weight");
    }
    return w;
  }

  DraftWeights draft() {
    DraftWeights w;
    for (int64_t i = 0; i < config_.n_mtp_layers; ++i)
      w.stages.push_back(
          block(config_.n_layers + i, fmt::format("mtp.{}.", i), config_.dspark_n_routed_experts));
    w.main_proj = fp8("mtp.0.main_proj");
    w.main_norm = tensor("mtp.0.main_norm.weight");
    const std::string last = fmt::format("mtp.{}.", config_.n_mtp_layers - 1);
    w.norm = tensor(last + "norm.weight");
    w.markov_embed = tensor(last + "markov_head.embed.weight");
    w.markov_head = plain(last + "markov_head.head");
    w.confidence_proj = tensor(last + "confidence_head.proj.weight");
    return w;
  }

 private:
  const ModelConfig& config_;
  const TensorTable& tensors_;
  ExpertSources sources_;
};

}  // namespace

std::vector<std::vector<ExpertWeights>> bind_experts(const ModelConfig& config, const TensorTable& tensors,
                                                     bool drafting) {
  const Binder binder(config, tensors, {});
  std::vector<std::vector<ExpertWeights>> layers;
  for (int64_t l = 0; l < config.n_layers; ++l)
    layers.push_back(binder.routed(fmt::format("layers.{}.", l), config.n_routed_experts));
  for (int64_t i = 0; drafting && i < config.n_mtp_layers; ++i)
    layers.push_back(binder.routed(fmt::format("mtp.{}.", i), config.dspark_n_routed_experts));
  return layers;
}

std::vector<Weight> bind_engram_tables(const ModelConfig& config, const TensorTable& tensors) {
  const Binder binder(config, tensors, {});
  std::vector<Weight> tables;
  for (const int64_t layer : config.engram_layer_ids) tables.push_back(binder.engram_table(layer));
  return tables;
}

ModelWeights bind_weights(const ModelConfig& config, const TensorTable& tensors, ExpertSources experts) {
  Binder binder(config, tensors, std::move(experts));
  ModelWeights w;
  w.embed = binder.tensor("embed.weight");
  w.head = binder.plain("head");
  w.norm = binder.tensor("norm.weight");
  for (int64_t l = 0; l < config.n_layers; ++l) w.layers.push_back(binder.layer(l));
  if (tensors.draft_available()) w.draft = binder.draft();
  return w;
}

}  // namespace fathom
