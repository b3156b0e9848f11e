// The model's configuration: config.json in the released nested spelling or the flat reference one.
//
// Field names are those of the flat configuration (spec 2, table). Everything that can be wrong with a
// configuration is found here, before any weight is opened.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ops/router_score.h"

namespace fathom {

struct VisionConfig {
  int64_t n_layers = 0;
  int64_t dim = 0;
  int64_t n_heads = 0;
  int64_t inter_dim = 0;
  int64_t patch_size = 0;
  double rope_theta = 10000;
  int64_t downsample_ratio = 0;
  int64_t max_n_token = 0;
  int64_t min_pixels = 0;
  std::optional<double> max_wh_ratio;
};

struct ModelConfig {
  int64_t vocab_size = 0;
  int64_t dim = 0;
  int64_t moe_inter_dim = 0;
  int64_t n_layers = 0;
  int64_t n_mtp_layers = 0;  // draft stages; 0 when the checkpoint has none

  int64_t n_heads = 0;
  int64_t head_dim = 0;
  int64_t rope_head_dim = 0;  // the last values of a head are rotated
  int64_t q_lora_rank = 0;
  int64_t o_lora_rank = 0;
  int64_t o_groups = 0;
  double norm_eps = 1e-20;
  int64_t window_size = 0;

  std::vector<int64_t> compress_ratios;  // one for each layer, draft stages (all 0) included
  std::vector<int64_t> kv_source_layers;
  std::vector<int64_t> index_source_layers;
  int64_t candidate_source_layer = -1;  // -1: the two-level choice is off
  int64_t candidate_topk_blocks = 0;
  int64_t candidate_block_size = 0;
  int64_t index_n_heads = 0;
  int64_t index_head_dim = 0;
  int64_t index_topk = 0;

  double rope_theta = 0;
  double compress_rope_theta = 0;
  double rope_factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
  int64_t original_seq_len = 0;
  int64_t max_seq_len = 0;

  int64_t n_routed_experts = 0;
  int64_t n_activated_experts = 0;
  RouterScore score_func = RouterScore::sqrtsoftplus;
  double route_scale = 1;
  double swiglu_limit = 0;  // 0: off

  int64_t hc_mult = 0;
  int64_t hc_sinkhorn_iters = 0;
  double hc_eps = 0;

  std::vector<int64_t> engram_layer_ids;
  std::vector<int64_t> engram_num_embeddings;  // rows of each engram layer's table
  int64_t engram_max_ngram_size = 0;
  int64_t engram_vocab_size = 0;
  int64_t engram_n_heads = 0;
  int64_t engram_head_dim = 0;
  int64_t engram_pad_id = 0;
  int64_t engram_compressed_vocab_size = 0;

  int64_t dspark_block_size = 0;
  int64_t dspark_noise_token_id = 0;
  std::vector<int64_t> dspark_target_layer_ids;
  int64_t dspark_markov_rank = 0;
  int64_t dspark_n_routed_experts = 0;
  int64_t dspark_n_activated_experts = 0;

  std::optional<VisionConfig> vision;

  int64_t bos_token_id = 0;
  int64_t eos_token_id = 1;
  int64_t pad_token_id = 2;
  int64_t image_token_id = -1;  // -1: no images

  int64_t ratio(int64_t layer) const { return compress_ratios[static_cast<size_t>(layer)]; }
  bool is_kv_source(int64_t layer) const;
  bool is_index_source(int64_t layer) const;
  /// The nearest KV source at or below `layer` (which has ratio > 0).
  int64_t kv_source_of(int64_t layer) const;
  /// The nearest index source at or below `layer` (which has ratio > 0).
  int64_t index_source_of(int64_t layer) const;
  /// Index of `layer` in engram_layer_ids, or -1.
  int64_t engram_index(int64_t layer) const;
  /// Rows an engram table is asked for at one position: (max_ngram_size - 1) * n_heads.
  int64_t engram_columns() const { return (engram_max_ngram_size - 1) * engram_n_heads; }
  /// Rows of hc_*_fn: pre, post and comb coefficients of one sub-layer.
  int64_t hc_mix() const { return (2 + hc_mult) * hc_mult; }
};

/// Reads and checks one configuration text. `what` names it in messages. Every refusal of spec 2 that
/// needs no tokenizer is made here; the message names key, value and rule.
Result<ModelConfig> parse_config(std::string_view text, std::string_view what = "config.json");

/// parse_config of `directory`/config.json.
Result<ModelConfig> load_config(const std::filesystem::path& directory);

}  // namespace fathom
