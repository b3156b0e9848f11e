// The released configuration in the flat reference spelling, with the values of spec 2.
#pragma once

#include <string_view>

namespace fathom::test {

constexpr std::string_view released_flat_config = R"({
  "vocab_size": 129280, "dim": 5120, "moe_inter_dim": 2304, "n_layers": 40, "n_mtp_layers": 3,
  "n_heads": 64, "head_dim": 512, "rope_head_dim": 64, "q_lora_rank": 1280, "o_lora_rank": 1024, "o_groups": 8,
  "norm_eps": 1e-20, "window_size": 128,
  "compress_ratios": [0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
                      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0],
  "kv_source_layers": [2, 8, 14, 20], "index_source_layers": [2, 8, 14, 20, 24, 28, 32, 36],
  "candidate_source_layer": 20, "candidate_topk_blocks": 2048, "candidate_block_size": 8,
  "index_n_heads": 32, "index_head_dim": 128, "index_topk": 512,
  "rope_theta": 10000, "compress_rope_theta": 160000, "rope_factor": 16, "beta_fast": 32, "beta_slow": 1,
  "original_seq_len": 65536,
  "n_routed_experts": 384, "n_shared_experts": 1, "n_activated_experts": 6, "score_func": "sqrtsoftplus",
  "route_scale": 1.5, "swiglu_limit": 10.0,
  "hc_mult": 4, "hc_sinkhorn_iters": 20, "hc_eps": 1e-06,
  "engram_layer_ids": [1, 14], "engram_num_embeddings": [384006168, 384016682], "engram_max_ngram_size": 4,
  "engram_vocab_size": 16000000, "engram_n_heads": 8, "engram_head_dim": 256, "engram_pad_id": 2,
  "engram_compressed_vocab_size": 99092,
  "dspark_block_size": 5, "dspark_noise_token_id": 128799, "dspark_target_layer_ids": [37, 38, 39],
  "dspark_markov_rank": 256, "dspark_n_routed_experts": 128, "dspark_n_activated_experts": 3,
  "dtype": "fp8", "expert_dtype": "fp4",
  "vision_n_layers": 32, "vision_dim": 1024, "vision_n_heads": 16, "vision_inter_dim": 2816, "vision_patch_size": 14,
  "vision_rope_theta": 10000, "vision_downsample_ratio": 3, "vision_max_n_token": 1024,
  "vision_min_pixels": 295936, "vision_max_wh_ratio": null, "image_token_id": 129264
})";

}  // namespace fathom::test
