#include "bench/released_config.h"

namespace fathom::bench {

// Spec 1, "Shapes of the released model", and spec 2's table of names.
ModelConfig released_config() {
  ModelConfig c;
  c.vocab_size = 129280;
  c.dim = 5120;
  c.moe_inter_dim = 2304;
  c.n_layers = 40;
  c.n_heads = 64;
  c.head_dim = 512;
  c.rope_head_dim = 64;
  c.q_lora_rank = 1280;
  c.o_lora_rank = 1024;
  c.o_groups = 8;
  c.window_size = 128;
  for (int64_t layer = 0; layer < c.n_layers; ++layer)
    c.compress_ratios.push_back(layer < 2 ? 0 : layer < 20 ? 2 : 1);
  c.kv_source_layers = {2, 8, 14, 20};
  c.index_source_layers = {2, 8, 14, 20, 24, 28, 32, 36};
  c.candidate_source_layer = 20;
  c.candidate_topk_blocks = 2048;
  c.candidate_block_size = 8;
  c.index_n_heads = 32;
  c.index_head_dim = 128;
  c.index_topk = 512;
  c.rope_theta = 10000;
  c.compress_rope_theta = 160000;
  c.rope_factor = 16;
  c.original_seq_len = 65536;
  c.max_seq_len = 1048576;
  c.n_routed_experts = 384;
  c.n_activated_experts = 6;
  c.route_scale = 1.5;
  c.swiglu_limit = 10;
  c.hc_mult = 4;
  c.hc_sinkhorn_iters = 20;
  c.hc_eps = 1e-6;
  c.engram_layer_ids = {1, 14};
  c.engram_num_embeddings = {384006168, 384016682};
  c.engram_max_ngram_size = 4;
  c.engram_vocab_size = 16000000;
  c.engram_n_heads = 8;
  c.engram_head_dim = 256;
  c.engram_pad_id = 2;
  c.engram_compressed_vocab_size = 99092;
  return c;
}

}  // namespace fathom::bench
