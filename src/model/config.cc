// What is read from where, and the range of every single value; rules between values: config_check.cc.
#include "model/config.h"

#include <algorithm>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "model/config_check.h"
#include "model/config_keys.h"
#include "model/config_reader.h"

namespace fathom {
namespace {

// Ranges: far above any model of this family, and small enough that every product later code forms
// (rows * columns, layers * experts) fits 64 bits and a hostile file cannot ask for absurd amounts.
constexpr IntRange vocab_range{1, 1 << 24};
constexpr IntRange layer_range{1, 1024};
constexpr IntRange layer_id_range{0, 1023};
constexpr IntRange dim_range{32, 1 << 16};
constexpr IntRange head_range{1, 4096};
constexpr IntRange expert_range{1, 1 << 16};
constexpr IntRange token_range{0, (1 << 24) - 1};
constexpr IntRange position_range{1, 1 << 24};  // a position must be exact in f32, where rope angles are made
constexpr double number_max = 1e12;

void read_shape(ConfigReader& r, const ConfigKeys& keys, ModelConfig& c) {
  c.vocab_size = r.integer("vocab_size", vocab_range);
  c.dim = r.integer(keys.dim, dim_range);
  c.moe_inter_dim = r.integer(keys.moe_inter_dim, dim_range);
  c.n_layers = r.integer(keys.n_layers, layer_range);
  c.n_mtp_layers = r.integer_or(keys.n_mtp_layers, 0, {0, 16});
  c.n_heads = r.integer(keys.n_heads, head_range);
  c.head_dim = r.integer("head_dim", {32, 8192});
  c.rope_head_dim = r.integer(keys.rope_head_dim, {2, 8192});
  c.q_lora_rank = r.integer("q_lora_rank", dim_range);
  c.o_lora_rank = r.integer("o_lora_rank", dim_range);
  c.o_groups = r.integer("o_groups", head_range);
  // As f32 it must not become 0: the released value is 1e-20.
  c.norm_eps = r.number_from(keys.norm_eps, 1e-37, 1);
  c.window_size = r.integer(keys.window_size, {1, 1 << 16});
}

void read_compression(ConfigReader& r, const ConfigKeys& keys, ModelConfig& c) {
  c.compress_ratios = r.integers("compress_ratios", 2048, {0, 1024});
  if (!r.failed() && std::cmp_less(c.compress_ratios.size(), c.n_layers))
    r.refuse("compress_ratios", "{} entries for {} layers, expected at least one each",
             c.compress_ratios.size(), c.n_layers);
  c.kv_source_layers = r.integers(keys.kv_source_layers, 1024, layer_id_range);
  c.index_source_layers = r.integers(keys.index_source_layers, 1024, layer_id_range);
  c.candidate_source_layer = r.integer(keys.candidate_source_layer, {-1, layer_id_range.max});
  if (c.candidate_source_layer >= 0) {
    c.candidate_topk_blocks = r.integer("candidate_topk_blocks", {1, 1 << 16});
    c.candidate_block_size = r.integer("candidate_block_size", {1, 1 << 16});
  }
  c.index_n_heads = r.integer("index_n_heads", head_range);
  c.index_head_dim = r.integer("index_head_dim", {32, 8192});
  c.index_topk = r.integer("index_topk", {1, 1 << 16});
}

void read_experts(ConfigReader& r, const ConfigKeys& keys, ModelConfig& c) {
  c.n_routed_experts = r.integer("n_routed_experts", expert_range);
  c.n_activated_experts = r.integer(keys.n_activated_experts, {1, 256});
  r.only("n_shared_experts", 1, "one shared expert");
  const std::string score = r.string(keys.score_func);
  if (score == "sqrtsoftplus")
    c.score_func = RouterScore::sqrtsoftplus;
  else if (score == "sigmoid")
    c.score_func = RouterScore::sigmoid;
  else if (score == "softmax")
    c.score_func = RouterScore::softmax;
  else
    r.refuse(keys.score_func, "expected sqrtsoftplus, sigmoid or softmax, found {}", shown(Json(score)));
  c.route_scale = r.number_above(keys.route_scale, 0, number_max);
  c.swiglu_limit = r.number_from("swiglu_limit", 0, number_max);
}

void read_hyper_connections(ConfigReader& r, ModelConfig& c) {
  c.hc_mult = r.integer("hc_mult", {1, 16});
  c.hc_sinkhorn_iters = r.integer("hc_sinkhorn_iters", {1, 1000});
  c.hc_eps = r.number_from("hc_eps", 0, 1);
}

void read_engram(ConfigReader& r, const ConfigKeys& keys, ModelConfig& c) {
  if (!r.has("engram_layer_ids")) return;
  c.engram_layer_ids = r.integers("engram_layer_ids", 1024, layer_id_range);
  if (c.engram_layer_ids.empty()) return;
  c.engram_num_embeddings = r.integers("engram_num_embeddings", 1024, {1, int64_t{1} << 40});
  c.engram_max_ngram_size = r.integer("engram_max_ngram_size", {2, 8});
  c.engram_vocab_size = r.integer("engram_vocab_size", {1, int64_t{1} << 40});
  c.engram_n_heads = r.integer("engram_n_heads", {1, 64});
  c.engram_head_dim = r.integer("engram_head_dim", {32, 8192});
  c.engram_pad_id = r.integer(keys.engram_pad_id, token_range);
  c.engram_compressed_vocab_size = r.integer("engram_compressed_vocab_size", vocab_range);
}

void read_draft(ConfigReader& r, const ConfigKeys& keys, ModelConfig& c) {
  if (c.n_mtp_layers == 0) return;
  c.dspark_block_size = r.integer("dspark_block_size", {1, 64});
  c.dspark_noise_token_id = r.integer("dspark_noise_token_id", token_range);
  c.dspark_target_layer_ids = r.integers("dspark_target_layer_ids", 16, layer_id_range);
  c.dspark_markov_rank = r.integer("dspark_markov_rank", {1, 1 << 16});
  c.dspark_n_routed_experts = r.integer("dspark_n_routed_experts", expert_range);
  c.dspark_n_activated_experts = r.integer(keys.dspark_n_activated_experts, {1, 256});
}

// What the family could vary and this engine does not: refused rather than computed wrongly.
void refuse_variants(ConfigReader& r) {
  r.only("num_key_value_heads", 1, "one shared key-value head");
  r.only("topk_method", "noaux_tc", "the only expert choice implemented");
  r.only("norm_topk_prob", true, "routing weights are normalized");
  r.only("hidden_act", "silu", "the only activation implemented");
  r.only("attention_bias", false, "attention projections have no bias");
  r.only("tie_word_embeddings", false, "the head has weights of its own");
  r.only("q_head_norm", false, "queries are not normalized per head");
}

void read_rope(ConfigReader& r, const ConfigKeys& keys, ModelConfig& c) {
  c.rope_factor = r.number_from(keys.rope_factor, 1, 1e6);
  c.beta_fast = r.number_above("beta_fast", 0, 1e6);
  c.beta_slow = r.number_above("beta_slow", 0, 1e6);
  c.original_seq_len = r.integer(keys.original_seq_len, position_range);
}

VisionConfig read_vision(ConfigReader& r, const VisionKeys& keys) {
  VisionConfig v;
  v.n_layers = r.integer(keys.n_layers, {1, 1024});
  v.dim = r.integer(keys.dim, {4, 1 << 16});
  v.n_heads = r.integer(keys.n_heads, head_range);
  v.inter_dim = r.integer(keys.inter_dim, {1, 1 << 16});
  v.patch_size = r.integer(keys.patch_size, {1, 256});
  v.rope_theta = r.number_above(keys.rope_theta, 1, number_max);
  v.downsample_ratio = r.integer(keys.downsample_ratio, {1, 16});
  v.max_n_token = r.integer(keys.max_n_token, {4, 1 << 20});
  v.min_pixels = r.integer(keys.min_pixels, {0, 1 << 30});
  if (r.has(keys.max_wh_ratio)) v.max_wh_ratio = r.number_above(keys.max_wh_ratio, 0, 1e6);
  return v;
}

// The part that is one object in either spelling.
void read_text(ConfigReader& r, const ConfigKeys& keys, ModelConfig& c) {
  read_shape(r, keys, c);
  read_compression(r, keys, c);
  read_experts(r, keys, c);
  read_hyper_connections(r, c);
  read_engram(r, keys, c);
  read_draft(r, keys, c);
  refuse_variants(r);
  c.compress_rope_theta = r.number_above("compress_rope_theta", 1, number_max);
}

void read_special_tokens(ConfigReader& r, ModelConfig& c) {
  c.bos_token_id = r.integer_or("bos_token_id", c.bos_token_id, token_range);
  c.eos_token_id = r.integer_or("eos_token_id", c.eos_token_id, token_range);
  c.pad_token_id = r.integer_or("pad_token_id", c.pad_token_id, token_range);
  if (c.vision) c.image_token_id = r.integer("image_token_id", token_range);
}

void read_quantization(ConfigReader& root, std::string_view what, std::optional<Error>& error) {
  const Json* section = root.object("quantization_config");
  if (section == nullptr) return root.refuse("quantization_config", "missing, this key is required");
  ConfigReader r(*section, fmt::format("{}: quantization_config.", what), error);
  if (!r.has("quant_method")) return r.refuse("quant_method", "missing, this key is required");
  if (!r.has("weight_block_size")) return r.refuse("weight_block_size", "missing, this key is required");
  r.only("quant_method", "fp8", "the released format");
  r.only("weight_block_size", Json::array({32, 32}), "the released format");
  r.only("scale_fmt", "ue8m0", "the released format");
  r.only("expert_dtype", "fp4", "the released format");
}

void read_nested(ConfigReader& root, std::string_view what, std::optional<Error>& error, ModelConfig& c) {
  const Json* text = root.object("text_config");
  if (text == nullptr) return root.refuse("text_config", "missing, this key is required");
  read_quantization(root, what, error);
  ConfigReader r(*text, fmt::format("{}: text_config.", what), error);
  read_text(r, nested_keys, c);
  r.only("expert_dtype", "fp4", "the released format");
  c.max_seq_len = r.integer(nested_keys.max_seq_len, position_range);

  const char* section = r.has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  const Json* scaling = r.object(section);
  if (scaling == nullptr)
    return r.refuse("rope_scaling", "missing, this key (or rope_parameters) is required");
  ConfigReader rope(*scaling, fmt::format("{}: text_config.{}.", what, section), error);
  const char* type = rope.has("rope_type") ? "rope_type" : "type";
  if (rope.string(type) != "yarn") rope.refuse(type, "expected \"yarn\"");
  read_rope(rope, nested_keys, c);
  // Newer files keep the base beside the scaling.
  c.rope_theta =
      (r.has("rope_theta") || !rope.has("rope_theta") ? r : rope).number_above("rope_theta", 1, number_max);

  if (const Json* vision = root.object("vision_config")) {
    ConfigReader v(*vision, fmt::format("{}: vision_config.", what), error);
    c.vision = read_vision(v, nested_vision_keys);
  }
}

void read_flat(ConfigReader& r, ModelConfig& c) {
  r.only("dtype", "fp8", "the released format");
  r.only("expert_dtype", "fp4", "the released format");
  read_text(r, flat_keys, c);
  read_rope(r, flat_keys, c);
  c.rope_theta = r.number_above("rope_theta", 1, number_max);
  // A runtime limit there: by default what the rope scaling was made for.
  const auto trained = static_cast<int64_t>(static_cast<double>(c.original_seq_len) * c.rope_factor);
  c.max_seq_len = r.integer_or(flat_keys.max_seq_len, std::min(trained, position_range.max), position_range);
  if (r.integer_or(flat_vision_keys.n_layers, 0, {0, 1024}) > 0) c.vision = read_vision(r, flat_vision_keys);
}

}  // namespace

bool ModelConfig::is_kv_source(int64_t layer) const {
  return std::binary_search(kv_source_layers.begin(), kv_source_layers.end(), layer);
}

bool ModelConfig::is_index_source(int64_t layer) const {
  return std::binary_search(index_source_layers.begin(), index_source_layers.end(), layer);
}

int64_t ModelConfig::kv_source_of(int64_t layer) const {
  const auto above = std::upper_bound(kv_source_layers.begin(), kv_source_layers.end(), layer);
  FATHOM_CHECK(above != kv_source_layers.begin());
  return *(above - 1);
}

int64_t ModelConfig::index_source_of(int64_t layer) const {
  const auto above = std::upper_bound(index_source_layers.begin(), index_source_layers.end(), layer);
  FATHOM_CHECK(above != index_source_layers.begin());
  return *(above - 1);
}

int64_t ModelConfig::engram_index(int64_t layer) const {
  const auto at = std::find(engram_layer_ids.begin(), engram_layer_ids.end(), layer);
  return at == engram_layer_ids.end() ? -1 : at - engram_layer_ids.begin();
}

Result<ModelConfig> parse_config(std::string_view text, std::string_view what) try {
  FATHOM_ASSIGN(const Json json, parse_json(text, what));
  if (!json.is_object())
    return fail(ErrorCode::format, "{}: expected an object, found {}", what, shown(json));
  std::optional<Error> error;
  ConfigReader root(json, fmt::format("{}: ", what), error);
  ModelConfig config;

  // The flat reference file has no model_type; a nested one must, and an exact one: "deepseek_v4" is another
  // model.
  const bool flat = !root.has("text_config") && root.has(flat_keys.dim);
  if (!flat || root.has("model_type")) {
    const std::string type = root.string("model_type");
    if (!root.failed() && type != "deepseek_v41")
      return fail(ErrorCode::unsupported, "{}: model_type: expected \"deepseek_v41\", found {}", what,
                  shown(Json(type)));
  }
  if (flat)
    read_flat(root, config);
  else
    read_nested(root, what, error, config);
  read_special_tokens(root, config);
  if (error) return fail(std::move(*error));

  FATHOM_TRY(check_config(config, flat ? flat_keys : nested_keys, what));
  config.compress_ratios.resize(static_cast<size_t>(config.n_layers + config.n_mtp_layers), 0);
  return config;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "{}: no memory to read {} bytes", what, text.size());
}

Result<ModelConfig> load_config(const std::filesystem::path& directory) {
  constexpr uint64_t max_bytes = 16 << 20;
  // A file of the model, or a model's name elsewhere, is easily given in place of a directory.
  std::error_code other;  // which reading the file tells
  const std::filesystem::file_type type = std::filesystem::status(directory, other).type();
  if (type == std::filesystem::file_type::not_found || type == std::filesystem::file_type::regular)
    return fail(
        ErrorCode::not_found,
        "{}: expected a model directory with config.json, tokenizer.json and safetensors files, found {}",
        directory.string(), type == std::filesystem::file_type::regular ? "a file" : "nothing of that name");
  const std::filesystem::path path = directory / "config.json";
  FATHOM_ASSIGN(const std::string text, read_file(path, max_bytes));
  return parse_config(text, path.string());
}

}  // namespace fathom
