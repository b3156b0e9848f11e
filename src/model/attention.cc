#include "model/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "model/trace_tensors.h"

namespace fathom {

AttentionPlan AttentionPlan::of(const ModelConfig& config, int64_t layer) {
  AttentionPlan plan{layer, config.ratio(layer), -1, CandidateRole::none};
  if (plan.ratio == 0) return plan;
  const auto& sources = config.kv_source_layers;
  plan.source = std::find(sources.begin(), sources.end(), config.kv_source_of(layer)) - sources.begin();
  if (layer == config.candidate_source_layer)
    plan.candidates = CandidateRole::source;
  else if (config.candidate_source_layer >= 0 && layer > config.candidate_source_layer)
    plan.candidates = CandidateRole::user;
  return plan;
}

Status Attention::run(Ops& ops, const Batch& b, Workspace& s) const {
  const int64_t n = b.rows;
  const TensorRef positions = s.positions.head(n);
  const TensorRef x = s.x.head(n);
  const TensorRef qr = s.qr.head(n);
  const TensorRef q = s.q.head(n);

  FATHOM_TRY(ops.linear({.in = x, .weight = w_.wq_a, .out = qr}));  // qr [rows, q_lora_rank]
  ops.rms_norm({.in = qr, .weight = w_.q_norm, .eps = config_.norm_eps, .out = qr});
  FATHOM_TRY(ops.linear(
      {.in = qr, .weight = w_.wq_b, .out = q.reshaped({n, q.row_elements()})}));  // q [rows, heads, head_dim]
  ops.rope({.x = q, .positions = positions, .freqs = freqs_});
  FATHOM_TRY(window_keys(ops, b, s));

  if (w_.compressor) FATHOM_TRY(compress(ops, b, s));
  if (w_.indexer) FATHOM_TRY(select(ops, b, s));
  const std::vector<RingView> rings = b.windows(plan_.layer);
  const std::vector<RecordsView> compressed =
      plan_.ratio > 0 ? b.compressed(plan_.source) : std::vector<RecordsView>{};
  const TensorRef attended = s.attended.head(n);
  const TensorRef records = s.window_records.head(n);
  ops.sparse_attention({.q = q,
                        .window_records = records,
                        .spans = b.spans,
                        .rings = rings,
                        .window_size = config_.window_size,
                        .block = b.block,
                        .compressed = compressed,
                        .picked = plan_.ratio > 0 ? TensorView(s.picked.head(n)) : TensorView{},
                        .num_picked = plan_.ratio > 0 ? TensorView(s.num_picked.head(n)) : TensorView{},
                        .sink = w_.sink,
                        .positions = positions,
                        .freqs = freqs_,
                        .out = attended});
  if (!b.block) ops.store_window({.records = records, .spans = b.spans, .rings = rings});

  const TensorRef o = s.o_lora.head(n);
  FATHOM_TRY(ops.grouped_linear({.in = attended.reshaped({n, attended.row_elements()}),
                                 .weight = w_.wo_a,
                                 .groups = config_.o_groups,
                                 .out = o}));
  FATHOM_TRY(ops.linear({.in = o, .weight = w_.wo_b, .out = s.y.head(n)}));
  if (b.trace != nullptr) trace(ops, b, s);
  return {};
}

Status Attention::append_keys(Ops& ops, const Batch& b, Workspace& s) const {
  FATHOM_TRY(window_keys(ops, b, s));
  std::vector<RowSpan> spans;
  std::vector<RingView> rings;
  for (size_t i = 0; i < b.sequences.size(); ++i) {
    if (!b.sequences[i]->drafting()) continue;
    spans.push_back(b.spans[i]);
    rings.push_back(b.sequences[i]->window(plan_.layer));
  }
  ops.store_window({.records = s.window_records.head(b.rows), .spans = spans, .rings = rings});
  return {};
}

Status Attention::window_keys(Ops& ops, const Batch& b, Workspace& s) const {
  const TensorRef kv = s.kv.head(b.rows);
  FATHOM_TRY(ops.linear({.in = s.x.head(b.rows), .weight = w_.wkv, .out = kv}));
  ops.rms_norm({.in = kv, .weight = w_.kv_norm, .eps = config_.norm_eps, .out = kv});
  ops.pack_window({.kv = kv,
                   .positions = s.positions.head(b.rows),
                   .freqs = freqs_,
                   .records = s.window_records.head(b.rows)});
  return {};
}

Status Attention::compress(Ops& ops, const Batch& b, Workspace& s) const {
  const CompressorWeights& c = *w_.compressor;
  const std::vector<GroupSpan> groups = b.closed_groups(plan_.ratio);
  const int64_t num_groups = groups.back().first_output + groups.back().num_groups;
  const TensorRef x = s.x.head(b.rows);
  const TensorRef latent = s.latent.head(num_groups);
  if (plan_.ratio == 1) {
    FATHOM_TRY(ops.linear({.in = x, .weight = c.wkv, .out = latent}));
  } else {
    FATHOM_TRY(ops.linear({.in = x, .weight = c.wkv, .out = s.group_kv.head(b.rows)}));
    FATHOM_TRY(ops.linear({.in = x, .weight = c.wgate, .out = s.group_score.head(b.rows)}));
    ops.pool_groups({.kv = s.group_kv.head(b.rows),
                     .score = s.group_score.head(b.rows),
                     .ratio = plan_.ratio,
                     .spans = b.spans,
                     .groups = groups,
                     .open = b.open_rows(plan_.source),
                     .out = latent});
  }
  if (num_groups == 0) return {};
  ops.rms_norm({.in = latent, .weight = c.norm, .eps = config_.norm_eps, .out = latent});

  // The index key comes from the latent before rope (spec 1, Compressed KV).
  const IndexerWeights& i = *w_.indexer;
  const TensorRef key = s.index_key.head(num_groups);
  FATHOM_TRY(ops.linear({.in = latent, .weight = i.wk, .out = key}));
  ops.rms_norm({.in = key, .weight = i.k_norm, .eps = config_.norm_eps, .out = key});
  ops.store_records({.kind = StoreRecordsParams::Kind::index_key,
                     .values = key,
                     .ratio = plan_.ratio,
                     .groups = groups,
                     .records = b.index_keys(plan_.source),
                     .freqs = freqs_});
  ops.store_records({.kind = StoreRecordsParams::Kind::compressed_kv,
                     .values = latent,
                     .ratio = plan_.ratio,
                     .groups = groups,
                     .records = b.compressed(plan_.source),
                     .freqs = freqs_});
  return {};
}

Status Attention::select(Ops& ops, const Batch& b, Workspace& s) const {
  const IndexerWeights& i = *w_.indexer;
  const int64_t n = b.rows;
  const TensorRef q = s.index_q.head(n);
  const TensorRef weights = s.index_weights.head(n);
  FATHOM_TRY(ops.linear({.in = s.qr.head(n), .weight = i.wq_b, .out = q.reshaped({n, q.row_elements()})}));
  ops.index_query({.x = q, .positions = s.positions.head(n), .freqs = freqs_});
  FATHOM_TRY(ops.linear({.in = s.x.head(n), .weight = i.weights_proj, .out = weights}));

  Buffer score_memory;
  TensorRef scores;
  if (b.trace != nullptr) {
    const int64_t columns = b.spans[0].end_position() / plan_.ratio;
    FATHOM_ASSIGN(score_memory, ops.allocate(n * columns * dtype_bytes(DType::f32)));
    scores = {score_memory.data(), DType::f32, Shape{n, columns}};
  }
  const auto scale = static_cast<float>(std::pow(static_cast<double>(config_.index_head_dim), -0.5) *
                                        std::pow(static_cast<double>(config_.index_n_heads), -0.5));
  FATHOM_TRY(ops.index_select({.queries = q,
                               .head_weights = weights,
                               .weight_scale = scale,
                               .spans = b.spans,
                               .keys = b.index_keys(plan_.source),
                               .ratio = plan_.ratio,
                               .role = plan_.candidates,
                               .candidate_block_size = config_.candidate_block_size,
                               .candidates = s.candidates.head(n),
                               .num_candidates = s.num_candidates.head(n),
                               .picked = s.picked.head(n),
                               .num_picked = s.num_picked.head(n),
                               .scores = scores}));
  if (b.trace != nullptr) trace_tensor(*b.trace, ops, fmt::format("{}.index_score", plan_.layer), scores);
  return {};
}

void Attention::trace(Ops& ops, const Batch& b, const Workspace& s) const {
  const auto name = [&](const char* what) { return fmt::format("{}.{}", plan_.layer, what); };
  trace_tensor(*b.trace, ops, name("attn_out"), s.y.head(b.rows));
  trace_window(*b.trace, ops, name("window_kv"), s.window_records.head(b.rows), config_.head_dim);
  if (!w_.compressor) return;
  const int64_t count = b.spans[0].end_position() / plan_.ratio;
  const Sequence& sequence = *b.sequences[0];
  trace_records(*b.trace, ops, name("compressed_kv"), StoreRecordsParams::Kind::compressed_kv,
                sequence.compressed(plan_.source), count, config_.head_dim);
  trace_records(*b.trace, ops, name("index_k"), StoreRecordsParams::Kind::index_key,
                sequence.index_keys(plan_.source), count, config_.index_head_dim);
}

}  // namespace fathom
