// make_sparse_checkpoint DIR: the released model's shape without its weights.
//
// Writes a model directory as published (48 shards, 96,085 tensors, 475 GiB) whose shards are all holes: it
// takes some 30 MB of disk and a second or two, and opening, checking and mapping it is the real thing. Every
// weight is 0 and every scale 2^-127. The tokenizer is DeepSeek-V3's with added tokens up to the released
// 129,280 entries and 99,092 compressed ids; which added tokens the published one has is not claimed here.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors_writer.h"
#include "model/config.h"
#include "model/manifest.h"

namespace fathom {
namespace {

constexpr size_t num_shards = 48;
constexpr int num_entries = 129280;
constexpr int image_token = 129264;

constexpr std::string_view released_config = R"({
  "architectures": ["DeepseekV41ForCausalLM"],
  "model_type": "deepseek_v41",
  "dtype": "bfloat16",
  "bos_token_id": 0,
  "eos_token_id": 1,
  "pad_token_id": 2,
  "image_token_id": 129264,
  "text_config": {
    "model_type": "deepseek_v41_text",
    "vocab_size": 129280,
    "hidden_size": 5120,
    "moe_intermediate_size": 2304,
    "num_hidden_layers": 40,
    "num_nextn_predict_layers": 3,
    "num_attention_heads": 64,
    "num_key_value_heads": 1,
    "head_dim": 512,
    "qk_rope_head_dim": 64,
    "q_lora_rank": 1280,
    "o_lora_rank": 1024,
    "o_groups": 8,
    "hidden_act": "silu",
    "swiglu_limit": 10.0,
    "rms_norm_eps": 1e-20,
    "attention_bias": false,
    "tie_word_embeddings": false,
    "max_position_embeddings": 1048576,
    "sliding_window": 128,
    "compress_ratios": [0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0],
    "kv_source_layer_ids": [2, 8, 14, 20],
    "index_source_layer_ids": [2, 8, 14, 20, 24, 28, 32, 36],
    "candidate_source_layer_id": 20,
    "candidate_topk_blocks": 2048,
    "candidate_block_size": 8,
    "index_n_heads": 32,
    "index_head_dim": 128,
    "index_topk": 512,
    "rope_theta": 10000,
    "compress_rope_theta": 160000,
    "rope_scaling": {
      "rope_type": "yarn",
      "factor": 16,
      "beta_fast": 32,
      "beta_slow": 1,
      "original_max_position_embeddings": 65536
    },
    "n_routed_experts": 384,
    "n_shared_experts": 1,
    "num_experts_per_tok": 6,
    "scoring_func": "sqrtsoftplus",
    "topk_method": "noaux_tc",
    "norm_topk_prob": true,
    "routed_scaling_factor": 1.5,
    "hc_mult": 4,
    "hc_sinkhorn_iters": 20,
    "hc_eps": 1e-06,
    "engram_layer_ids": [1, 14],
    "engram_num_embeddings": [384006168, 384016682],
    "engram_max_ngram_size": 4,
    "engram_vocab_size": 16000000,
    "engram_n_heads": 8,
    "engram_head_dim": 256,
    "engram_pad_token_id": 2,
    "engram_compressed_vocab_size": 99092,
    "dspark_block_size": 5,
    "dspark_noise_token_id": 128799,
    "dspark_target_layer_ids": [37, 38, 39],
    "dspark_markov_rank": 256,
    "dspark_n_routed_experts": 128,
    "dspark_num_experts_per_tok": 3
  },
  "quantization_config": {
    "quant_method": "fp8",
    "activation_scheme": "dynamic",
    "weight_block_size": [32, 32],
    "scale_fmt": "ue8m0",
    "expert_dtype": "fp4"
  },
  "vision_config": {
    "model_type": "deepseek_v41_vision",
    "num_hidden_layers": 32,
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "intermediate_size": 2816,
    "patch_size": 14,
    "rope_theta": 10000,
    "downsample_ratio": 3,
    "max_image_tokens": 1024,
    "min_pixels": 295936,
    "max_wh_ratio": null
  }
}
)";

constexpr std::string_view tokenizer_config = R"({
  "add_bos_token": true,
  "add_eos_token": false,
  "bos_token": "<｜begin▁of▁sentence｜>",
  "eos_token": "<｜end▁of▁sentence｜>",
  "pad_token": "<｜▁pad▁｜>",
  "model_max_length": 1048576,
  "clean_up_tokenization_spaces": false,
  "tokenizer_class": "PreTrainedTokenizerFast"
}
)";

Status write_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file) return fail(ErrorCode::io, "{}: cannot write", path.string());
  return {};
}

// `start`, then a hole up to `size` bytes.
Status write_sparse(const std::filesystem::path& path, std::string_view start, int64_t size) {
  FATHOM_TRY(write_text(path, start));
  if (::truncate(path.c_str(), size) != 0)
    return fail(ErrorCode::io, "{}: cannot extend to {} bytes: {}", path.string(), size,
                std::strerror(errno));
  return {};
}

// The markers of the chat format that V3 does not have, then the image marker in its place, then fillers.
std::string added_token(int id, int first_id) {
  static constexpr const char* markers[] = {
      "<｜System｜>", "<｜latest_reminder｜>", "<think>",      "</think>",    "｜DSML｜",      "<｜action｜>",
      "<｜query｜>",  "<｜authority｜>",       "<｜domain｜>", "<｜title｜>", "<｜read_url｜>"};
  if (id == image_token) return "<｜deepseek_image｜>";
  const auto number = static_cast<size_t>(id - first_id);
  if (number < std::size(markers)) return markers[number];
  return fmt::format("<｜place▁holder▁no▁{}｜>", 800 + number);
}

Status write_tokenizer(const std::filesystem::path& directory) {
  const std::filesystem::path base =
      std::filesystem::path(FATHOM_SOURCE_DIR) / "tests/golden/deepseek-v3/tokenizer.json";
  FATHOM_ASSIGN(const std::string text, read_file(base, 64 << 20));
  FATHOM_ASSIGN(Json tokenizer, parse_json(text, base.string()));
  Json& added = tokenizer["added_tokens"];
  const int first_id = added.back()["id"].get<int>() + 1;
  for (int id = first_id; id < num_entries; ++id)
    added.push_back({{"id", id},
                     {"content", added_token(id, first_id)},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  FATHOM_TRY(write_text(directory / "tokenizer.json", tokenizer.dump()));
  return write_text(directory / "tokenizer_config.json", tokenizer_config);
}

// Each engram table with its scale in a shard of its own; everything else, in order, in equal parts.
std::vector<std::vector<TensorView>> distribute(const std::vector<ExpectedTensor>& manifest,
                                                size_t num_tables) {
  const size_t num_equal = num_shards - num_tables;
  int64_t others = 0;
  for (const ExpectedTensor& tensor : manifest)
    if (tensor.group != TensorGroup::engram_table) others += released_bytes(tensor);

  std::vector<std::vector<TensorView>> shards(num_shards);
  int64_t reached = 0;
  size_t table_parts = 0;
  for (const ExpectedTensor& tensor : manifest) {
    const TensorView view{nullptr, released_dtype(tensor), tensor.shape, tensor.name};
    if (tensor.group == TensorGroup::engram_table) {
      shards[num_equal + table_parts++ / 2].push_back(view);
      continue;
    }
    const auto part = static_cast<size_t>(static_cast<double>(reached) / static_cast<double>(others) *
                                          static_cast<double>(num_equal));
    shards[std::min(part, num_equal - 1)].push_back(view);
    reached += released_bytes(tensor);
  }
  return shards;
}

Status write_shards(const std::filesystem::path& directory, const ModelConfig& config) {
  const std::vector<ExpectedTensor> manifest = make_manifest(config);
  const auto shards = distribute(manifest, config.engram_layer_ids.size());
  const std::pair<std::string, std::string> format{"format", "pt"};
  Json weight_map = Json::object();
  auto& members = weight_map.get_ref<Json::object_t&>();
  members.reserve(manifest.size());
  int64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    FATHOM_ASSIGN(const std::string header, safetensors_header(shards[i], {&format, 1}));
    int64_t bytes = 0;
    for (const TensorView& tensor : shards[i]) {
      bytes += tensor.bytes();
      // Names are distinct; ordered_map's own insertion would look through all of them each time.
      static_cast<Json::object_t::Container&>(members).emplace_back(std::string(tensor.name), name);
    }
    FATHOM_TRY(write_sparse(directory / name, header, static_cast<int64_t>(header.size()) + bytes));
    total += bytes;
  }
  const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(weight_map)}};
  FATHOM_TRY(write_text(directory / "model.safetensors.index.json", index.dump(1)));
  fmt::print("{}: {} tensors, {:.1f} GiB in {} shards\n", directory.string(), manifest.size(),
             static_cast<double>(total) / (1 << 30), shards.size());
  return {};
}

Status make(const std::filesystem::path& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return fail(ErrorCode::io, "{}: {}", directory.string(), error.message());
  FATHOM_ASSIGN(const ModelConfig config, parse_config(released_config));
  FATHOM_TRY(write_text(directory / "config.json", released_config));
  FATHOM_TRY(write_tokenizer(directory));
  return write_shards(directory, config);
}

}  // namespace
}  // namespace fathom

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_sparse_checkpoint DIR\n");
    return 2;
  }
  if (const fathom::Status made = fathom::make(argv[1]); !made) {
    std::fprintf(stderr, "make_sparse_checkpoint: %s\n", made.error().message.c_str());
    return 1;
  }
  return 0;
}
