#include "bench/random_layer.h"

#include <memory>
#include <utility>

namespace fathom::bench {
namespace {

Result<HyperWeights> hyper(const ModelConfig& c, WeightStore& store) {
  HyperWeights w;
  FATHOM_ASSIGN(w.fn, store.tensor(DType::f32, {c.hc_mix(), c.hc_mult * c.dim}));
  FATHOM_ASSIGN(w.base, store.tensor(DType::f32, {c.hc_mix()}));
  FATHOM_ASSIGN(w.scale, store.tensor(DType::f32, {3}));
  return w;
}

Result<CompressorWeights> compressor(const ModelConfig& c, int64_t ratio, WeightStore& store) {
  CompressorWeights w;
  FATHOM_ASSIGN(w.wkv, store.bf16(c.head_dim, c.dim));
  if (ratio > 1) {
    FATHOM_ASSIGN(w.wgate, store.bf16(c.head_dim, c.dim));
  }
  FATHOM_ASSIGN(w.norm, store.tensor(DType::bf16, {c.head_dim}));
  return w;
}

Result<IndexerWeights> indexer(const ModelConfig& c, bool owns_keys, WeightStore& store) {
  IndexerWeights w;
  FATHOM_ASSIGN(w.wq_b, store.fp8(c.index_n_heads * c.index_head_dim, c.q_lora_rank));
  FATHOM_ASSIGN(w.weights_proj, store.bf16(c.index_n_heads, c.dim));
  if (owns_keys) {
    FATHOM_ASSIGN(w.wk, store.bf16(c.index_head_dim, c.head_dim));
    FATHOM_ASSIGN(w.k_norm, store.tensor(DType::bf16, {c.index_head_dim}));
  }
  return w;
}

Result<AttentionWeights> attention(const ModelConfig& c, int64_t index, WeightStore& store) {
  const int64_t values = c.n_heads * c.head_dim;
  AttentionWeights w;
  FATHOM_ASSIGN(w.wq_a, store.fp8(c.q_lora_rank, c.dim));
  FATHOM_ASSIGN(w.wq_b, store.fp8(values, c.q_lora_rank));
  FATHOM_ASSIGN(w.wkv, store.fp8(c.head_dim, c.dim));
  FATHOM_ASSIGN(w.wo_a, store.fp8(c.o_groups * c.o_lora_rank, values / c.o_groups));
  FATHOM_ASSIGN(w.wo_b, store.fp8(c.dim, c.o_groups * c.o_lora_rank));
  FATHOM_ASSIGN(w.q_norm, store.tensor(DType::bf16, {c.q_lora_rank}));
  FATHOM_ASSIGN(w.kv_norm, store.tensor(DType::bf16, {c.head_dim}));
  FATHOM_ASSIGN(w.sink, store.tensor(DType::f32, {c.n_heads}));
  if (c.is_kv_source(index)) {
    FATHOM_ASSIGN(w.compressor, compressor(c, c.ratio(index), store));
  }
  if (c.is_index_source(index)) {
    FATHOM_ASSIGN(w.indexer, indexer(c, c.is_kv_source(index), store));
  }
  return w;
}

}  // namespace

Result<LayerWeights> random_layer(const ModelConfig& c, int64_t index, const RandomExperts& experts,
                                  size_t copy, WeightStore& store) {
  FATHOM_CHECK_LT(c.engram_index(index), 0);
  LayerWeights w;
  FATHOM_ASSIGN(w.hc_attn, hyper(c, store));
  FATHOM_ASSIGN(w.hc_ffn, hyper(c, store));
  FATHOM_ASSIGN(w.attn_norm, store.tensor(DType::bf16, {c.dim}));
  FATHOM_ASSIGN(w.ffn_norm, store.tensor(DType::bf16, {c.dim}));
  FATHOM_ASSIGN(w.attn, attention(c, index, store));
  const auto num_experts = static_cast<int64_t>(experts.routed().size());
  FATHOM_ASSIGN(w.ffn.gate, store.tensor(DType::bf16, {num_experts, c.dim}));
  FATHOM_ASSIGN(w.ffn.bias, store.tensor(DType::f32, {num_experts}));
  w.ffn.routed = std::make_unique<ResidentExperts>(experts.routed());
  w.ffn.shared = experts.shared(copy);
  return w;
}

double layer_weight_bytes(const ModelConfig& c, const LayerWeights& w, int64_t experts_taken) {
  int64_t bytes = 0;
  for (const HyperWeights* hyper : {&w.hc_attn, &w.hc_ffn})
    bytes += hyper->fn.bytes() + hyper->base.bytes() + hyper->scale.bytes();
  for (const TensorView* plain :
       {&w.attn_norm, &w.ffn_norm, &w.attn.q_norm, &w.attn.kv_norm, &w.attn.sink, &w.ffn.gate, &w.ffn.bias})
    bytes += plain->bytes();
  for (const Weight* weight : {&w.attn.wq_a, &w.attn.wq_b, &w.attn.wkv, &w.attn.wo_a, &w.attn.wo_b})
    bytes += bytes_of(*weight);
  if (w.attn.compressor) {
    const CompressorWeights& own = *w.attn.compressor;
    bytes += bytes_of(own.wkv) + own.norm.bytes() + (own.wgate.data.empty() ? 0 : bytes_of(own.wgate));
  }
  if (w.attn.indexer) {
    const IndexerWeights& i = *w.attn.indexer;
    bytes += bytes_of(i.wq_b) + bytes_of(i.weights_proj) + (i.wk.data.empty() ? 0 : bytes_of(i.wk));
  }
  bytes += experts_taken * RandomExperts::bytes_of_one(c) + bytes_of(w.ffn.shared);
  return static_cast<double>(bytes);
}

}  // namespace fathom::bench
