#include "model/config_check.h"

#include <algorithm>
#include <utility>

#include "model/engram_layout.h"

namespace fathom {
namespace {

template <class... Args>
tl::unexpected<Error> refuse(std::string_view what, std::string_view key, fmt::format_string<Args...> format,
                             Args&&... args) {
  return fail(ErrorCode::invalid_argument, "{}: {}: {}", what, key,
              fmt::format(format, std::forward<Args>(args)...));
}

Status check_multiple(int64_t value, int64_t divisor, std::string_view what, std::string_view key) {
  if (value % divisor == 0) return {};
  return refuse(what, key, "expected a multiple of {}, found {}", divisor, value);
}

// Ascending, in [0, limit). The readers have checked that no value is negative.
Status check_layer_list(const std::vector<int64_t>& layers, int64_t limit, std::string_view what,
                        std::string_view key) {
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] < 0 || layers[i] >= limit)
      return refuse(what, key, "layer {} is out of range, the model has layers 0 to {}", layers[i],
                    limit - 1);
    if (i > 0 && layers[i] <= layers[i - 1])
      return refuse(what, key, "expected strictly increasing layers, found {} after {}", layers[i],
                    layers[i - 1]);
  }
  return {};
}

Status check_dims(const ModelConfig& c, const ConfigKeys& keys, std::string_view what) {
  FATHOM_TRY(check_multiple(c.dim, 32, what, keys.dim));
  FATHOM_TRY(check_multiple(c.moe_inter_dim, 32, what, keys.moe_inter_dim));
  FATHOM_TRY(check_multiple(c.head_dim, 32, what, "head_dim"));
  FATHOM_TRY(check_multiple(c.index_head_dim, 32, what, "index_head_dim"));
  FATHOM_TRY(check_multiple(c.q_lora_rank, 32, what, "q_lora_rank"));
  FATHOM_TRY(check_multiple(c.o_lora_rank, 32, what, "o_lora_rank"));
  FATHOM_TRY(check_multiple(c.rope_head_dim, 2, what, keys.rope_head_dim));
  if (c.rope_head_dim > std::min(c.head_dim, c.index_head_dim))
    return refuse(what, keys.rope_head_dim, "{} is more than head_dim {} or index_head_dim {}",
                  c.rope_head_dim, c.head_dim, c.index_head_dim);
  if (c.n_heads % c.o_groups != 0)
    return refuse(what, keys.n_heads, "{} heads do not divide into o_groups = {}", c.n_heads, c.o_groups);
  return {};
}

Status check_experts(const ModelConfig& c, const ConfigKeys& keys, std::string_view what) {
  if (c.n_activated_experts > c.n_routed_experts)
    return refuse(what, keys.n_activated_experts, "{} of {} experts cannot be chosen", c.n_activated_experts,
                  c.n_routed_experts);
  const int64_t total = c.n_layers * c.n_routed_experts + c.n_mtp_layers * c.dspark_n_routed_experts;
  if (total > max_total_experts)
    return refuse(what, "n_routed_experts", "{} experts over all layers, expected at most {}", total,
                  max_total_experts);
  return {};
}

// The nearest entry of `sources` at or below `layer`, or -1.
int64_t nearest(const std::vector<int64_t>& sources, int64_t layer) {
  const auto above = std::upper_bound(sources.begin(), sources.end(), layer);
  return above == sources.begin() ? -1 : *(above - 1);
}

Status check_sources(const ModelConfig& c, const std::vector<int64_t>& sources, std::string_view what,
                     std::string_view key) {
  FATHOM_TRY(check_layer_list(sources, c.n_layers, what, key));
  for (const int64_t layer : sources)
    if (c.ratio(layer) == 0)
      return refuse(what, key, "layer {} has compress_ratios 0 and cannot be a source", layer);
  for (int64_t layer = 0; layer < c.n_layers; ++layer) {
    if (c.ratio(layer) == 0) continue;
    const int64_t source = nearest(sources, layer);
    if (source < 0)
      return refuse(what, key, "layer {} has compress_ratios {} and no source at or below it", layer,
                    c.ratio(layer));
    if (c.ratio(source) != c.ratio(layer))
      return refuse(what, key, "layer {} has compress_ratios {}, its source, layer {}, has {}", layer,
                    c.ratio(layer), source, c.ratio(source));
  }
  return {};
}

Status check_candidates(const ModelConfig& c, const ConfigKeys& keys, std::string_view what) {
  const int64_t source = c.candidate_source_layer;
  if (source < 0) return {};
  if (!c.is_index_source(source))
    return refuse(what, keys.candidate_source_layer, "layer {} is not in {}", source,
                  keys.index_source_layers);
  if ((c.candidate_topk_blocks - 1) * c.candidate_block_size + 1 < c.index_topk)
    return refuse(
        what, "candidate_topk_blocks",
        "{} blocks of candidate_block_size = {} may hold fewer positions than index_topk = {}: expected "
        "(blocks - 1) * size + 1 of at least that",
        c.candidate_topk_blocks, c.candidate_block_size, c.index_topk);
  // Later index sources choose inside its blocks, which count positions of its own ratio.
  for (const int64_t later : c.index_source_layers)
    if (later > source && c.ratio(later) != c.ratio(source))
      return refuse(what, keys.candidate_source_layer,
                    "layer {} has compress_ratios {}, the later index source {} has {}", source,
                    c.ratio(source), later, c.ratio(later));
  return {};
}

Status check_attention(const ModelConfig& c, const ConfigKeys& keys, std::string_view what) {
  for (size_t i = static_cast<size_t>(c.n_layers); i < c.compress_ratios.size(); ++i)
    if (c.compress_ratios[i] != 0)
      return refuse(what, "compress_ratios", "entry {} belongs to a draft stage and must be 0, found {}", i,
                    c.compress_ratios[i]);
  FATHOM_TRY(check_sources(c, c.kv_source_layers, what, keys.kv_source_layers));
  FATHOM_TRY(check_sources(c, c.index_source_layers, what, keys.index_source_layers));
  for (const int64_t layer : c.kv_source_layers)
    if (!c.is_index_source(layer))
      return refuse(what, keys.kv_source_layers, "layer {} is not in {}", layer, keys.index_source_layers);
  return check_candidates(c, keys, what);
}

Status check_engram(const ModelConfig& c, const ConfigKeys& keys, std::string_view what) {
  if (c.engram_layer_ids.empty()) return {};
  FATHOM_TRY(check_layer_list(c.engram_layer_ids, c.n_layers, what, "engram_layer_ids"));
  FATHOM_TRY(check_multiple(c.engram_head_dim, 32, what, "engram_head_dim"));
  if (c.engram_pad_id >= c.vocab_size)
    return refuse(what, keys.engram_pad_id, "token {} is not in a vocabulary of {}", c.engram_pad_id,
                  c.vocab_size);
  if (c.engram_compressed_vocab_size > c.vocab_size)
    return refuse(what, "engram_compressed_vocab_size", "{} is more than vocab_size = {}",
                  c.engram_compressed_vocab_size, c.vocab_size);
  if (c.engram_num_embeddings.size() != c.engram_layer_ids.size())
    return refuse(what, "engram_num_embeddings", "{} entries for {} layers in engram_layer_ids",
                  c.engram_num_embeddings.size(), c.engram_layer_ids.size());
  auto layout = make_engram_layout(c);
  if (!layout) return refuse(what, "engram_vocab_size", "{}", layout.error().message);
  for (size_t i = 0; i < c.engram_layer_ids.size(); ++i) {
    const int64_t rows = layout->table_rows(static_cast<int64_t>(i));
    if (rows != c.engram_num_embeddings[i])
      return refuse(what, "engram_num_embeddings",
                    "{} rows for layer {}, the bucket primes from engram_vocab_size = {} add up to {}",
                    c.engram_num_embeddings[i], c.engram_layer_ids[i], c.engram_vocab_size, rows);
  }
  return {};
}

Status check_draft(const ModelConfig& c, const ConfigKeys& keys, std::string_view what) {
  if (c.n_mtp_layers == 0) return {};
  FATHOM_TRY(check_layer_list(c.dspark_target_layer_ids, c.n_layers, what, "dspark_target_layer_ids"));
  if (c.dspark_target_layer_ids.empty())
    return refuse(what, "dspark_target_layer_ids", "expected at least one layer, found none");
  if (c.dspark_noise_token_id >= c.vocab_size)
    return refuse(what, "dspark_noise_token_id", "token {} is not in a vocabulary of {}",
                  c.dspark_noise_token_id, c.vocab_size);
  if (c.dspark_n_activated_experts > c.dspark_n_routed_experts)
    return refuse(what, keys.dspark_n_activated_experts, "{} of {} experts cannot be chosen",
                  c.dspark_n_activated_experts, c.dspark_n_routed_experts);
  return {};
}

Status check_vision(const ModelConfig& c, std::string_view what) {
  if (!c.vision) return {};
  const VisionConfig& v = *c.vision;
  // Two rotation axes, each on half of a head, in pairs of halves.
  if (v.dim % v.n_heads != 0 || v.dim / v.n_heads % 4 != 0)
    return refuse(what, "vision head count", "a width of {} does not divide into {} heads of a multiple of 4",
                  v.dim, v.n_heads);
  if (c.image_token_id >= c.vocab_size)
    return refuse(what, "image_token_id", "token {} is not in a vocabulary of {}", c.image_token_id,
                  c.vocab_size);
  for (const int64_t other : {c.bos_token_id, c.eos_token_id, c.pad_token_id})
    if (c.image_token_id == other)
      return refuse(what, "image_token_id", "token {} has another meaning too (bos, eos or pad)", other);
  return {};
}

Status check_special_tokens(const ModelConfig& c, std::string_view what) {
  const auto check = [&](int64_t id, std::string_view key) -> Status {
    if (id < c.vocab_size) return {};
    return refuse(what, key, "token {} is not in a vocabulary of {}", id, c.vocab_size);
  };
  FATHOM_TRY(check(c.bos_token_id, "bos_token_id"));
  FATHOM_TRY(check(c.eos_token_id, "eos_token_id"));
  return check(c.pad_token_id, "pad_token_id");
}

}  // namespace

Status check_config(const ModelConfig& config, const ConfigKeys& keys, std::string_view what) {
  FATHOM_TRY(check_special_tokens(config, what));
  FATHOM_TRY(check_dims(config, keys, what));
  FATHOM_TRY(check_experts(config, keys, what));
  FATHOM_TRY(check_attention(config, keys, what));
  FATHOM_TRY(check_draft(config, keys, what));
  FATHOM_TRY(check_vision(config, what));
  return check_engram(config, keys, what);
}

}  // namespace fathom
