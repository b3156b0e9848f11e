// The activations of one pass, by name, for a fixed number of rows. One buffer, taken once.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "model/config.h"
#include "ops/ops.h"

namespace fathom {

/// [rows, ...] tensors in backend memory. A pass uses the first rows of each; nothing here outlives a pass.
/// There is always room for the rows of one draft block.
class Workspace {
 public:
  /// Errors: out_of_memory. `ops` must outlive the workspace.
  static Result<Workspace> create(const ModelConfig& config, Ops& ops, int64_t max_rows);

  int64_t max_rows() const { return max_rows_; }
  int64_t bytes() const { return buffer_.bytes(); }
  static int64_t bytes_for(const ModelConfig& config, int64_t max_rows);

  TensorRef ids, positions;         // i32 [rows]
  TensorRef image_rows;             // u8 [rows]
  TensorRef stream;                 // bf16 [rows, hc, dim]
  TensorRef pre, next_pre, post;    // f32 [rows, hc]
  TensorRef comb;                   // f32 [rows, hc, hc]
  TensorRef x;                      // bf16 [rows, dim]: a sub-layer's normed input
  TensorRef y;                      // bf16 [rows, dim]: its output
  TensorRef qr;                     // bf16 [rows, q_lora_rank]
  TensorRef q, attended;            // bf16 [rows, n_heads, head_dim]
  TensorRef kv;                     // bf16 [rows, head_dim]
  TensorRef window_records;         // u8 [rows, record bytes]
  TensorRef o_lora;                 // bf16 [rows, o_groups * o_lora_rank]
  TensorRef group_kv, group_score;  // f32 [rows, head_dim]
  TensorRef latent;                 // bf16 [rows, head_dim]
  TensorRef index_key;              // bf16 [rows, index_head_dim]
  TensorRef index_q;                // bf16 [rows, index_n_heads, index_head_dim]
  TensorRef index_weights;          // bf16 [rows, index_n_heads]
  TensorRef picked;                 // i32 [rows, index_topk]
  TensorRef num_picked;             // i32 [rows]
  TensorRef candidates;             // i32 [rows, candidate_topk_blocks]
  TensorRef num_candidates;         // i32 [rows]
  TensorRef experts;                // i32 [rows, most experts a token of a layer or draft stage takes]
  TensorRef expert_weights;         // f32, the same
  TensorRef expected_experts;       // i32, the same: of the next layer
  TensorRef expected_weights;       // f32, the same
  TensorRef engram_ids;             // i64 [rows, columns]
  TensorRef engram_rows;            // bf16 [rows, columns * engram_head_dim]
  TensorRef engram_kv;              // bf16 [rows, (hc + 1) * dim]
  TensorRef main_hidden;            // bf16 [rows, targets * dim]: draft features

 private:
  int64_t layout(const ModelConfig& config, int64_t max_rows, std::byte* base);

  int64_t max_rows_ = 0;
  Buffer buffer_;
};

}  // namespace fathom
