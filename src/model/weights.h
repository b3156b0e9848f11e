// The model's weights: one named member per tensor, viewing the mapped checkpoint in place (spec 2).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "model/config.h"
#include "model/tensor_table.h"
#include "ops/params.h"
#include "tensor/weight.h"

namespace fathom {

struct HyperWeights {
  TensorView fn;     // [(2 + hc) * hc, hc * dim]
  TensorView base;   // [(2 + hc) * hc]
  TensorView scale;  // [3]
};

struct CompressorWeights {
  Weight wkv;       // [head_dim, dim]
  Weight wgate;     // [head_dim, dim]; empty when the ratio is 1
  TensorView norm;  // [head_dim]
};

struct IndexerWeights {
  Weight wq_b;          // [index_n_heads * index_head_dim, q_lora_rank]
  Weight weights_proj;  // [index_n_heads, dim]
  Weight wk;            // [index_head_dim, head_dim]; KV sources only
  TensorView k_norm;    // [index_head_dim]; KV sources only
};

struct AttentionWeights {
  Weight wq_a;                                  // [q_lora_rank, dim]
  Weight wq_b;                                  // [n_heads * head_dim, q_lora_rank]
  Weight wkv;                                   // [head_dim, dim]
  Weight wo_a;                                  // [o_groups * o_lora_rank, n_heads * head_dim / o_groups]
  Weight wo_b;                                  // [dim, o_groups * o_lora_rank]
  TensorView q_norm;                            // [q_lora_rank]
  TensorView kv_norm;                           // [head_dim]
  TensorView sink;                              // [n_heads]
  std::optional<CompressorWeights> compressor;  // KV sources
  std::optional<IndexerWeights> indexer;        // index sources
};

struct MoeWeights {
  TensorView gate;     // [n_routed_experts, dim]
  TensorView bias;     // [n_routed_experts]
  TensorView bias_vl;  // [n_routed_experts]; empty when vision is not available
  std::unique_ptr<ExpertSource> routed;
  ExpertWeights shared;
};

struct EngramWeights {
  Weight table;         // [rows, engram_head_dim]
  Weight wkv;           // [(hc + 1) * dim, columns * engram_head_dim]
  TensorView q_weight;  // [hc, dim]
  TensorView k_weight;  // [hc, dim]
};

/// A layer, or a draft stage (which has no engram, compressor or indexer).
struct LayerWeights {
  HyperWeights hc_attn, hc_ffn;
  TensorView attn_norm, ffn_norm;  // [dim]
  AttentionWeights attn;
  MoeWeights ffn;
  std::optional<EngramWeights> engram;
};

/// The draft stages and their heads (spec 4).
struct DraftWeights {
  Weight main_proj;                  // [dim, targets * dim]
  TensorView main_norm;              // [dim]
  std::vector<LayerWeights> stages;  // mtp.0 ...
  TensorView norm;                   // [dim]
  TensorView markov_embed;           // [vocab, dspark_markov_rank]
  Weight markov_head;                // [vocab, dspark_markov_rank]
  TensorView confidence_proj;        // [1, dim + dspark_markov_rank]
};

struct ModelWeights {
  TensorView embed;  // [vocab, dim]
  Weight head;       // [vocab, dim]
  TensorView norm;   // [dim]
  std::vector<LayerWeights> layers;
  std::optional<DraftWeights> draft;  // where the checkpoint has usable draft stages
};

/// For each layer, then for each draft stage.
using ExpertSources = std::vector<std::unique_ptr<ExpertSource>>;

/// Gathers the model's weights from a table bound to the same configuration. Layers and stages that
/// `experts` has no entry for get their experts from the table, too.
ModelWeights bind_weights(const ModelConfig& config, const TensorTable& tensors, ExpertSources experts = {});

/// The routed experts of each layer and, when `drafting`, of each draft stage.
std::vector<std::vector<ExpertWeights>> bind_experts(const ModelConfig& config, const TensorTable& tensors,
                                                     bool drafting);

/// The tables of the engram layers, in order.
std::vector<Weight> bind_engram_tables(const ModelConfig& config, const TensorTable& tensors);

}  // namespace fathom
