// The two spellings of the configuration's keys (spec 2, table): the released nested file's and the flat
// reference's. Keys spelled alike in both are written out where they are read.
#pragma once

namespace fathom {

struct ConfigKeys {
  const char* dim;
  const char* moe_inter_dim;
  const char* n_layers;
  const char* n_mtp_layers;
  const char* n_heads;
  const char* rope_head_dim;
  const char* norm_eps;
  const char* window_size;
  const char* kv_source_layers;
  const char* index_source_layers;
  const char* candidate_source_layer;
  const char* max_seq_len;
  const char* n_activated_experts;
  const char* score_func;
  const char* route_scale;
  const char* engram_pad_id;
  const char* dspark_n_activated_experts;
  const char* rope_factor;
  const char* original_seq_len;
};

constexpr ConfigKeys nested_keys{
    .dim = "hidden_size",
    .moe_inter_dim = "moe_intermediate_size",
    .n_layers = "num_hidden_layers",
    .n_mtp_layers = "num_nextn_predict_layers",
    .n_heads = "num_attention_heads",
    .rope_head_dim = "qk_rope_head_dim",
    .norm_eps = "rms_norm_eps",
    .window_size = "sliding_window",
    .kv_source_layers = "kv_source_layer_ids",
    .index_source_layers = "index_source_layer_ids",
    .candidate_source_layer = "candidate_source_layer_id",
    .max_seq_len = "max_position_embeddings",
    .n_activated_experts = "num_experts_per_tok",
    .score_func = "scoring_func",
    .route_scale = "routed_scaling_factor",
    .engram_pad_id = "engram_pad_token_id",
    .dspark_n_activated_experts = "dspark_num_experts_per_tok",
    .rope_factor = "factor",
    .original_seq_len = "original_max_position_embeddings",
};

constexpr ConfigKeys flat_keys{
    .dim = "dim",
    .moe_inter_dim = "moe_inter_dim",
    .n_layers = "n_layers",
    .n_mtp_layers = "n_mtp_layers",
    .n_heads = "n_heads",
    .rope_head_dim = "rope_head_dim",
    .norm_eps = "norm_eps",
    .window_size = "window_size",
    .kv_source_layers = "kv_source_layers",
    .index_source_layers = "index_source_layers",
    .candidate_source_layer = "candidate_source_layer",
    .max_seq_len = "max_seq_len",
    .n_activated_experts = "n_activated_experts",
    .score_func = "score_func",
    .route_scale = "route_scale",
    .engram_pad_id = "engram_pad_id",
    .dspark_n_activated_experts = "dspark_n_activated_experts",
    .rope_factor = "rope_factor",
    .original_seq_len = "original_seq_len",
};

struct VisionKeys {
  const char* n_layers;
  const char* dim;
  const char* n_heads;
  const char* inter_dim;
  const char* patch_size;
  const char* rope_theta;
  const char* downsample_ratio;
  const char* max_n_token;
  const char* min_pixels;
  const char* max_wh_ratio;
};

/// Within vision_config.
constexpr VisionKeys nested_vision_keys{
    .n_layers = "num_hidden_layers",
    .dim = "hidden_size",
    .n_heads = "num_attention_heads",
    .inter_dim = "intermediate_size",
    .patch_size = "patch_size",
    .rope_theta = "rope_theta",
    .downsample_ratio = "downsample_ratio",
    .max_n_token = "max_image_tokens",
    .min_pixels = "min_pixels",
    .max_wh_ratio = "max_wh_ratio",
};

constexpr VisionKeys flat_vision_keys{
    .n_layers = "vision_n_layers",
    .dim = "vision_dim",
    .n_heads = "vision_n_heads",
    .inter_dim = "vision_inter_dim",
    .patch_size = "vision_patch_size",
    .rope_theta = "vision_rope_theta",
    .downsample_ratio = "vision_downsample_ratio",
    .max_n_token = "vision_max_n_token",
    .min_pixels = "vision_min_pixels",
    .max_wh_ratio = "vision_max_wh_ratio",
};

}  // namespace fathom
