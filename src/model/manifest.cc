#include "model/manifest.h"

#include <fmt/format.h>

namespace fathom {
namespace {

int64_t tiles(int64_t size) { return (size + 31) / 32; }

class Builder {
 public:
  explicit Builder(const ModelConfig& config) : c_(config) {}

  std::vector<ExpectedTensor> build() {
    plain("embed.weight", {c_.vocab_size, c_.dim}, TensorGroup::embedding);
    for (int64_t layer = 0; layer < c_.n_layers; ++layer) {
      const std::string prefix = fmt::format("layers.{}.", layer);
      if (const int64_t i = c_.engram_index(layer); i >= 0)
        engram(prefix, c_.engram_num_embeddings[static_cast<size_t>(i)]);
      attention(prefix);
      if (c_.is_kv_source(layer)) compressor(prefix, c_.ratio(layer));
      if (c_.is_index_source(layer)) indexer(prefix, c_.is_kv_source(layer));
      block_rest(prefix, c_.n_routed_experts);
    }
    plain("norm.weight", {c_.dim}, TensorGroup::norm);
    plain("head.weight", {c_.vocab_size, c_.dim}, TensorGroup::head);
    draft();
    if (c_.vision) vision(*c_.vision);
    return std::move(tensors_);
  }

 private:
  void add(std::string name, TensorStorage storage, Shape shape, TensorGroup group) {
    const TensorGroup actual = in_draft_ ? TensorGroup::draft : group;
    tensors_.push_back({std::move(name), storage, shape, actual, false, false});
  }
  void plain(std::string name, Shape shape, TensorGroup group) {
    add(std::move(name), TensorStorage::unquantized, shape, group);
  }
  /// E4M3 with one scale for each tile of 32 x 32.
  void fp8(const std::string& name, int64_t out, int64_t in, TensorGroup group) {
    add(name + ".weight", TensorStorage::e4m3, {out, in}, group);
    add(name + ".scale", TensorStorage::e8m0, {tiles(out), tiles(in)}, group);
    tensors_.back().dense_scale = true;
  }
  /// Two E2M1 in a byte with one scale for each row and 32 columns.
  void fp4(const std::string& name, int64_t out, int64_t in, TensorGroup group) {
    add(name + ".weight", TensorStorage::packed_fp4, {out, in / 2}, group);
    add(name + ".scale", TensorStorage::e8m0, {out, tiles(in)}, group);
  }

  void engram(const std::string& prefix, int64_t rows) {
    const std::string name = prefix + "engram.";
    add(name + "embed.weight", TensorStorage::e4m3, {rows, c_.engram_head_dim}, TensorGroup::engram_table);
    add(name + "embed.scale", TensorStorage::e8m0, {rows, c_.engram_head_dim / 32},
        TensorGroup::engram_table);
    fp8(name + "wkv", (c_.hc_mult + 1) * c_.dim, c_.engram_columns() * c_.engram_head_dim,
        TensorGroup::engram);
    plain(name + "q_weight", {c_.hc_mult, c_.dim}, TensorGroup::engram);
    plain(name + "k_weight", {c_.hc_mult, c_.dim}, TensorGroup::engram);
  }

  void attention(const std::string& prefix) {
    const std::string name = prefix + "attn.";
    const int64_t values = c_.n_heads * c_.head_dim;
    plain(name + "attn_sink", {c_.n_heads}, TensorGroup::attention);
    fp8(name + "wq_a", c_.q_lora_rank, c_.dim, TensorGroup::attention);
    plain(name + "q_norm.weight", {c_.q_lora_rank}, TensorGroup::attention);
    fp8(name + "wq_b", values, c_.q_lora_rank, TensorGroup::attention);
    fp8(name + "wkv", c_.head_dim, c_.dim, TensorGroup::attention);
    plain(name + "kv_norm.weight", {c_.head_dim}, TensorGroup::attention);
    fp8(name + "wo_a", c_.o_groups * c_.o_lora_rank, values / c_.o_groups, TensorGroup::attention);
    fp8(name + "wo_b", c_.dim, c_.o_groups * c_.o_lora_rank, TensorGroup::attention);
  }

  void compressor(const std::string& prefix, int64_t ratio) {
    const std::string name = prefix + "attn.compressor.";
    plain(name + "wkv.weight", {c_.head_dim, c_.dim}, TensorGroup::compressor);
    if (ratio > 1) plain(name + "wgate.weight", {c_.head_dim, c_.dim}, TensorGroup::compressor);
    plain(name + "norm.weight", {c_.head_dim}, TensorGroup::compressor);
  }

  void indexer(const std::string& prefix, bool owns_keys) {
    const std::string name = prefix + "attn.indexer.";
    fp8(name + "wq_b", c_.index_n_heads * c_.index_head_dim, c_.q_lora_rank, TensorGroup::indexer);
    plain(name + "weights_proj.weight", {c_.index_n_heads, c_.dim}, TensorGroup::indexer);
    if (!owns_keys) return;
    plain(name + "wk.weight", {c_.index_head_dim, c_.head_dim}, TensorGroup::indexer);
    plain(name + "k_norm.weight", {c_.index_head_dim}, TensorGroup::indexer);
  }

  void block_rest(const std::string& prefix, int64_t num_experts) {
    plain(prefix + "attn_norm.weight", {c_.dim}, TensorGroup::norm);
    plain(prefix + "ffn_norm.weight", {c_.dim}, TensorGroup::norm);
    plain(prefix + "ffn.gate.weight", {num_experts, c_.dim}, TensorGroup::gate);
    plain(prefix + "ffn.gate.bias", {num_experts}, TensorGroup::gate);
    if (c_.vision || in_draft_) {
      plain(prefix + "ffn.gate.bias_vl", {num_experts}, TensorGroup::vision);
      tensors_.back().optional = in_draft_;
    }
    for (int64_t expert = 0; expert < num_experts; ++expert) {
      const std::string name = fmt::format("{}ffn.experts.{}.", prefix, expert);
      fp4(name + "w1", c_.moe_inter_dim, c_.dim, TensorGroup::experts);
      fp4(name + "w3", c_.moe_inter_dim, c_.dim, TensorGroup::experts);
      fp4(name + "w2", c_.dim, c_.moe_inter_dim, TensorGroup::experts);
    }
    const std::string shared = prefix + "ffn.shared_experts.";
    fp8(shared + "w1", c_.moe_inter_dim, c_.dim, TensorGroup::shared_experts);
    fp8(shared + "w3", c_.moe_inter_dim, c_.dim, TensorGroup::shared_experts);
    fp8(shared + "w2", c_.dim, c_.moe_inter_dim, TensorGroup::shared_experts);
    for (const char* part : {"attn", "ffn"}) {
      plain(fmt::format("{}hc_{}_fn", prefix, part), {c_.hc_mix(), c_.hc_mult * c_.dim},
            TensorGroup::hyper_connections);
      plain(fmt::format("{}hc_{}_base", prefix, part), {c_.hc_mix()}, TensorGroup::hyper_connections);
      plain(fmt::format("{}hc_{}_scale", prefix, part), {3}, TensorGroup::hyper_connections);
    }
  }

  void draft() {
    in_draft_ = true;
    for (int64_t stage = 0; stage < c_.n_mtp_layers; ++stage) {
      const std::string prefix = fmt::format("mtp.{}.", stage);
      attention(prefix);
      block_rest(prefix, c_.dspark_n_routed_experts);
      if (stage == 0) {
        const auto targets = static_cast<int64_t>(c_.dspark_target_layer_ids.size());
        fp8(prefix + "main_proj", c_.dim, c_.dim * targets, TensorGroup::draft);
        plain(prefix + "main_norm.weight", {c_.dim}, TensorGroup::draft);
      }
      if (stage == c_.n_mtp_layers - 1) {
        plain(prefix + "norm.weight", {c_.dim}, TensorGroup::draft);
        plain(prefix + "markov_head.embed.weight", {c_.vocab_size, c_.dspark_markov_rank},
              TensorGroup::draft);
        plain(prefix + "markov_head.head.weight", {c_.vocab_size, c_.dspark_markov_rank}, TensorGroup::draft);
        plain(prefix + "confidence_head.proj.weight", {1, c_.dim + c_.dspark_markov_rank},
              TensorGroup::draft);
      }
    }
    in_draft_ = false;
  }

  void linear(const std::string& name, int64_t out, int64_t in) {
    plain(name + ".weight", {out, in}, TensorGroup::vision);
    plain(name + ".bias", {out}, TensorGroup::vision);
  }

  void vision(const VisionConfig& v) {
    linear("vision.patch_embed.proj", v.dim, 3 * v.patch_size * v.patch_size);
    for (int64_t block = 0; block < v.n_layers; ++block) {
      const std::string name = fmt::format("vision.blocks.{}.", block);
      plain(name + "norm1.weight", {v.dim}, TensorGroup::vision);
      linear(name + "attn.wqkv", 3 * v.dim, v.dim);
      linear(name + "attn.wo", v.dim, v.dim);
      plain(name + "norm2.weight", {v.dim}, TensorGroup::vision);
      plain(name + "mlp.w1.weight", {2 * v.inter_dim, v.dim}, TensorGroup::vision);
      plain(name + "mlp.w2.weight", {v.dim, v.inter_dim}, TensorGroup::vision);
    }
    plain("vision.norm.weight", {v.dim}, TensorGroup::vision);
    linear("aligner.w1", c_.dim, v.dim * v.downsample_ratio * v.downsample_ratio);
    linear("aligner.w2", c_.dim, c_.dim);
    for (const char* marker : {"image_start", "image_end", "image_newline"})
      plain(marker, {c_.dim}, TensorGroup::vision);
  }

  const ModelConfig& c_;
  bool in_draft_ = false;
  std::vector<ExpectedTensor> tensors_;
};

bool published_as_f32(std::string_view name) {
  return name.ends_with("attn_sink") || name.ends_with("gate.bias") || name.ends_with("gate.bias_vl") ||
         name.find(".hc_attn_") != std::string_view::npos || name.find(".hc_ffn_") != std::string_view::npos;
}

}  // namespace

std::vector<ExpectedTensor> make_manifest(const ModelConfig& config) { return Builder(config).build(); }

DType released_dtype(const ExpectedTensor& tensor) {
  switch (tensor.storage) {
    case TensorStorage::e4m3:
      return DType::e4m3;
    case TensorStorage::e8m0:
      return DType::e8m0;
    case TensorStorage::packed_fp4:
      return DType::e2m1x2;
    case TensorStorage::unquantized:
      break;
  }
  return published_as_f32(tensor.name) ? DType::f32 : DType::bf16;
}

int64_t released_bytes(const ExpectedTensor& tensor) {
  return tensor.shape.elements() * dtype_bytes(released_dtype(tensor));
}

NameFamily name_family(std::string_view name) {
  if (name.starts_with("mtp.")) return NameFamily::draft;
  if (name.starts_with("vision.") || name.starts_with("aligner.") || name == "image_start" ||
      name == "image_end" || name == "image_newline" ||
      (name.starts_with("layers.") && name.ends_with(".ffn.gate.bias_vl")))
    return NameFamily::vision;
  return NameFamily::text;
}

}  // namespace fathom
