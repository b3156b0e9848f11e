#include "model/workspace.h"

#include <algorithm>

#include "tensor/cache_layout.h"

namespace fathom {

// Places every tensor behind `base` (which may be null, to count) and returns the bytes in all.
int64_t Workspace::layout(const ModelConfig& c, int64_t max_rows, std::byte* base) {
  const int64_t rows = std::max(max_rows, c.dspark_block_size);
  constexpr int64_t alignment = 64;
  int64_t offset = 0;
  const auto place = [&](TensorRef& t, DType dtype, Shape shape) {
    t = {base == nullptr ? nullptr : base + offset, dtype, shape};
    offset += (shape.elements() * dtype_bytes(dtype) + alignment - 1) / alignment * alignment;
  };
  place(ids, DType::i32, {rows});
  place(positions, DType::i32, {rows});
  place(image_rows, DType::u8, {rows});
  place(stream, DType::bf16, {rows, c.hc_mult, c.dim});
  place(pre, DType::f32, {rows, c.hc_mult});
  place(next_pre, DType::f32, {rows, c.hc_mult});
  place(post, DType::f32, {rows, c.hc_mult});
  place(comb, DType::f32, {rows, c.hc_mult, c.hc_mult});
  place(x, DType::bf16, {rows, c.dim});
  place(y, DType::bf16, {rows, c.dim});
  place(qr, DType::bf16, {rows, c.q_lora_rank});
  place(q, DType::bf16, {rows, c.n_heads, c.head_dim});
  place(attended, DType::bf16, {rows, c.n_heads, c.head_dim});
  place(kv, DType::bf16, {rows, c.head_dim});
  place(window_records, DType::u8, {rows, window_record(c.head_dim).bytes()});
  place(o_lora, DType::bf16, {rows, c.o_groups * c.o_lora_rank});
  if (!c.kv_source_layers.empty()) {
    place(group_kv, DType::f32, {rows, c.head_dim});
    place(group_score, DType::f32, {rows, c.head_dim});
    place(latent, DType::bf16, {rows, c.head_dim});
    place(index_key, DType::bf16, {rows, c.index_head_dim});
    place(index_q, DType::bf16, {rows, c.index_n_heads, c.index_head_dim});
    place(index_weights, DType::bf16, {rows, c.index_n_heads});
    place(picked, DType::i32, {rows, c.index_topk});
    place(num_picked, DType::i32, {rows});
    place(candidates, DType::i32, {rows, c.candidate_topk_blocks});
    place(num_candidates, DType::i32, {rows});
  }
  const int64_t chosen = std::max(c.n_activated_experts, c.dspark_n_activated_experts);
  place(experts, DType::i32, {rows, chosen});
  place(expert_weights, DType::f32, {rows, chosen});
  place(expected_experts, DType::i32, {rows, chosen});
  place(expected_weights, DType::f32, {rows, chosen});
  if (!c.engram_layer_ids.empty()) {
    place(engram_ids, DType::i64, {rows, c.engram_columns()});
    place(engram_rows, DType::bf16, {rows, c.engram_columns() * c.engram_head_dim});
    place(engram_kv, DType::bf16, {rows, (c.hc_mult + 1) * c.dim});
  }
  if (c.n_mtp_layers > 0)
    place(main_hidden, DType::bf16, {rows, static_cast<int64_t>(c.dspark_target_layer_ids.size()) * c.dim});
  return offset;
}

int64_t Workspace::bytes_for(const ModelConfig& config, int64_t max_rows) {
  return Workspace().layout(config, max_rows, nullptr);
}

Result<Workspace> Workspace::create(const ModelConfig& config, Ops& ops, int64_t max_rows) {
  FATHOM_CHECK_LE(1, max_rows);
  Workspace workspace;
  FATHOM_ASSIGN(workspace.buffer_, ops.allocate(bytes_for(config, max_rows)));
  workspace.max_rows_ = max_rows;
  workspace.layout(config, max_rows, workspace.buffer_.data());
  return workspace;
}

}  // namespace fathom
