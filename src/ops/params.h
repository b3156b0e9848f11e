// One parameter struct per operation. Shapes stand beside the members; `rows` are the batch's tokens.
//
// Inputs are TensorView or Weight, outputs TensorRef; nothing aliases unless it says so. Activations are
// bf16 and coefficients f32 unless said otherwise. Every operation computes a row from that row's own
// inputs alone, in an order that depends on nothing else (spec 1, Invariances).
#pragma once

#include <cstdint>
#include <span>

#include "ops/expert_source.h"
#include "ops/router_score.h"
#include "ops/tensor_ref.h"
#include "tensor/view.h"
#include "tensor/weight.h"

namespace fathom {

/// The rows of one sequence in a batch: consecutive positions, consecutive rows.
struct RowSpan {
  int64_t first_row = 0;
  int64_t num_rows = 0;
  int64_t first_position = 0;
  int64_t end_position() const { return first_position + num_rows; }
};

/// One sequence's ring of records: position p stands in slot p % slots. Slots hold at least the window.
struct RingView {
  std::byte* data = nullptr;  // [slots, record bytes]
  int64_t slots = 0;
};

/// One sequence's position-addressed records, in blocks of equal size.
struct RecordsView {
  std::span<std::byte* const> blocks;
  int64_t records_per_block = 1;
  std::byte* at(int64_t i, int64_t record_bytes) const {
    return blocks[static_cast<size_t>(i / records_per_block)] + i % records_per_block * record_bytes;
  }
};

/// Groups of `ratio` consecutive positions that a batch completes, for one sequence.
struct GroupSpan {
  int64_t first_group = 0;  // group j covers positions [j * ratio, (j + 1) * ratio)
  int64_t num_groups = 0;
  int64_t first_output = 0;  // row of the first of them in the outputs
};

/// stream[r, c] = table[ids[r]] for every copy c; pre[r] = (1, 0, ..).
struct EmbedParams {
  TensorView ids;    // i32 [rows], each in [0, vocab)
  TensorView table;  // float [vocab, dim]
  TensorRef stream;  // bf16 [rows, hc, dim]
  TensorRef pre;     // f32 [rows, hc]
};

/// The three coefficient sets of one sub-layer (spec 1, mixes).
struct HyperMixParams {
  TensorView stream;  // bf16 [rows, hc, dim]
  TensorView fn;      // float [(2 + hc) * hc, hc * dim]
  TensorView base;    // float [(2 + hc) * hc]
  TensorView scale;   // float [3]
  double norm_eps = 0;
  double hc_eps = 0;
  int64_t sinkhorn_iters = 0;
  TensorRef pre;   // f32 [rows, hc]
  TensorRef post;  // f32 [rows, hc]
  TensorRef comb;  // f32 [rows, hc, hc]
};

/// out = rms_norm(collapse(stream, pre), weight), or the collapsed row itself.
struct CollapseNormParams {
  TensorView stream;  // bf16 [rows, hc, dim]
  TensorView pre;     // f32 [rows, hc]
  TensorView weight;  // float [dim]; empty: no norm
  double norm_eps = 0;
  TensorRef out;  // bf16 [rows, dim]
};

/// stream = expand(y, stream, post, comb), in place.
struct ExpandParams {
  TensorView y;      // bf16 [rows, dim]
  TensorView post;   // f32 [rows, hc]
  TensorView comb;   // f32 [rows, hc, hc]
  TensorRef stream;  // bf16 [rows, hc, dim]
};

/// out = in @ weight^T + bias. A quantized weight takes its input through the FP8 quantizer (spec 1, Linear
/// layers). The bias joins the sum before its rounding.
struct LinearParams {
  TensorView in;         // bf16 [rows, in]
  Weight weight;         // [out, in]
  TensorView bias = {};  // float [out], or empty; with bf16 results only
  TensorRef out;         // bf16 or f32 [rows, out]
};

/// Block-diagonal linear: group g of `in` times rows g of the weight. The input is never quantized.
struct GroupedLinearParams {
  TensorView in;  // bf16 [rows, groups * in]
  Weight weight;  // [groups * out, in]
  int64_t groups = 1;
  TensorRef out;  // bf16 [rows, groups * out]
};

struct RmsNormParams {
  TensorView in;      // bf16 [rows, dim]
  TensorView weight;  // float [dim]
  double eps = 0;
  TensorRef out;  // bf16 [rows, dim]; may be `in`
};

/// Rotates the last 2 * freqs values of every head, in place.
struct RopeParams {
  TensorRef x;           // bf16 [rows, heads, dim]
  TensorView positions;  // i32 [rows]
  TensorView freqs;      // f32 [rope_head_dim / 2]
};

/// Index queries: rope, then the index FP4 grid, in place.
struct IndexQueryParams {
  TensorRef x;           // bf16 [rows, heads, index_dim]
  TensorView positions;  // i32 [rows]
  TensorView freqs;      // f32 [rope_head_dim / 2]
};

/// Rope and packing of window keys into records.
struct PackWindowParams {
  TensorView kv;         // bf16 [rows, head_dim], normed
  TensorView positions;  // i32 [rows]
  TensorView freqs;      // f32 [rope_head_dim / 2]
  TensorRef records;     // u8 [rows, window_record(head_dim).bytes()]
};

/// Copies the batch's newest records into each sequence's ring, after attention has read the old ones.
struct StoreWindowParams {
  TensorView records;  // u8 [rows, record bytes]
  std::span<const RowSpan> spans;
  std::span<const RingView> rings;  // one per span
};

/// Softmax over each row's window and picked compressed keys, with a sink; inverse rope of the result.
/// A row sees the last window_size positions, its own included; as part of a block all of the span's own keys
/// and the last window_size positions before the span.
struct SparseAttentionParams {
  TensorView q;               // bf16 [rows, heads, head_dim]
  TensorView window_records;  // u8 [rows, record bytes]: the batch's own keys
  std::span<const RowSpan> spans;
  std::span<const RingView> rings;  // one per span: keys before the batch
  int64_t window_size = 0;
  bool block = false;
  std::span<const RecordsView> compressed;  // one per span; empty when the layer has ratio 0
  TensorView picked;                        // i32 [rows, topk], ascending; unused when `compressed` is empty
  TensorView num_picked;                    // i32 [rows]
  TensorView sink;                          // float [heads]
  TensorView positions;                     // i32 [rows]
  TensorView freqs;                         // f32 [rope_head_dim / 2]
  TensorRef out;                            // bf16 [rows, heads, head_dim]
};

/// Pools complete groups, channel by channel, to latents before their norm; keeps the open rows.
struct PoolGroupsParams {
  TensorView kv;     // f32 [rows, head_dim]
  TensorView score;  // f32 [rows, head_dim]
  int64_t ratio = 0;
  std::span<const RowSpan> spans;
  std::span<const GroupSpan> groups;  // one per span
  std::span<const RingView> open;     // one per span: f32 [slots, 2, head_dim], kv then score
  TensorRef out;                      // bf16 [groups, head_dim]
};

/// Rope at the groups' first positions, packing, and writing to the sequences' records.
struct StoreRecordsParams {
  enum class Kind { compressed_kv, index_key } kind = Kind::compressed_kv;
  TensorView values;  // bf16 [groups, dim], normed, before rope
  int64_t ratio = 0;
  std::span<const GroupSpan> groups;  // one per sequence
  std::span<const RecordsView> records;
  TensorView freqs;  // f32 [rope_head_dim / 2]
};

/// What an index layer has to do with candidate blocks.
enum class CandidateRole { none, source, user };

/// Chooses at most topk visible compressed positions per row: the highest scores, ties to the lower position.
struct IndexSelectParams {
  TensorView queries;       // bf16 [rows, heads, index_dim], on the FP4 grid
  TensorView head_weights;  // bf16 [rows, heads]
  float weight_scale = 1;
  std::span<const RowSpan> spans;
  std::span<const RecordsView> keys;  // one per span
  int64_t ratio = 1;
  CandidateRole role = CandidateRole::none;
  int64_t candidate_block_size = 0;
  TensorRef candidates;      // i32 [rows, candidate_topk_blocks], ascending; written by source, read by user
  TensorRef num_candidates;  // i32 [rows]
  TensorRef picked;          // i32 [rows, topk], ascending
  TensorRef num_picked;      // i32 [rows]
  // Tracing only: every score against all keys there are, f32 [rows, columns], -inf where no key is. Else
  // empty.
  TensorRef scores;
};

/// The experts of each row, larger biased score first, ties to the lower expert; weights from unbiased
/// scores.
struct RouteParams {
  TensorView x;           // bf16 [rows, dim]
  TensorView gate;        // float [experts, dim]
  TensorView bias;        // float [experts]
  TensorView image_bias;  // float [experts], or empty
  TensorView image_rows;  // u8 [rows]: 1 at image positions; or empty
  RouterScore score = RouterScore::sqrtsoftplus;
  double route_scale = 1;
  TensorRef experts;  // i32 [rows, k]
  TensorRef weights;  // f32 [rows, k]
};

/// Sum over a row's routed experts in ascending expert order, then the shared one, in f32; rounded once.
struct ExpertLayerParams {
  TensorView x;        // bf16 [rows, dim]
  TensorView experts;  // i32 [rows, k]
  TensorView weights;  // f32 [rows, k]
  ExpertSource* routed = nullptr;
  const ExpertWeights* shared = nullptr;
  double swiglu_limit = 0;  // 0: off
  TensorRef out;            // bf16 [rows, dim]
};

/// out[r] = the table rows of r, dequantized, side by side.
struct EngramGatherParams {
  TensorView ids;  // i64 [rows, columns], each in [0, table rows)
  Weight table;    // e4m3 [table rows, engram_head_dim]
  TensorRef out;   // bf16 [rows, columns * engram_head_dim]
};

/// out[r, first_column ..] = the mean of stream[r] over its copies: one layer's draft feature (spec 4).
struct DraftFeatureParams {
  TensorView stream;  // bf16 [rows, hc, dim]
  int64_t first_column = 0;
  TensorRef out;  // bf16 [rows, columns]
};

/// Draft `step` of every request, now that the token before it is known (spec 4, Drafting):
/// logits[q, step] += head @ embed[previous[q]], confidence[q] = proj @ (x[q, step], embed[previous[q]]).
struct MarkovStepParams {
  TensorView x;  // bf16 [requests, depth, dim]
  int64_t step = 0;
  TensorView previous;   // i32 [requests]
  TensorView embed;      // float [vocab, rank]
  Weight head;           // [vocab, rank]
  TensorView proj;       // float [1, dim + rank]
  TensorRef logits;      // f32 [requests, depth, vocab]
  TensorRef confidence;  // f32 [requests]
};

/// stream += gate * value (spec 3, Write-back), in place.
struct EngramWriteParams {
  TensorView kv;        // bf16 [rows, (hc + 1) * dim]: a key for each copy, then the value
  TensorView q_weight;  // float [hc, dim]
  TensorView k_weight;  // float [hc, dim]
  double norm_eps = 0;
  TensorView dead_rows;  // u8 [rows]: 1 where the gate is 0; or empty
  TensorRef stream;      // bf16 [rows, hc, dim]
};

/// stream[r, c] = rows[r] for every copy c.
struct PlaceRowsParams {
  TensorView rows;   // float [rows, dim]
  TensorRef stream;  // bf16 [rows, copies, dim]
};

/// The 2-D rotation of an image's patches (spec 5, ViT), q and k in place: of the head_dim / 2 angles the
/// first half follows the patch's row in the image, the second its column, and angle i turns elements i and
/// head_dim / 2 + i.
struct PatchRopeParams {
  TensorRef qkv;            // bf16 [patches, 3, heads, head_dim]: q, k, v; v stays as it is
  int64_t first_patch = 0;  // the first one's place in the image, in reading order
  int64_t patch_cols = 0;   // of the image
  double theta = 0;
};

/// Softmax over all patches of one image, for some of them: no mask, scale head_dim^-0.5.
struct PatchAttentionParams {
  TensorView qkv;           // bf16 [patches, 3, heads, head_dim]: the whole image, q and k rotated
  int64_t first_query = 0;  // the patch of out's first row
  TensorRef out;            // bf16 [queries, heads, head_dim]
};

/// x = x + y, in place.
struct AddParams {
  TensorView y;  // bf16 [rows, dim]
  TensorRef x;   // bf16 [rows, dim]
};

/// out = bf16(silu(gate)) * up.
struct GatedSiluParams {
  TensorView gate_up;  // bf16 [rows, 2 * dim]: gate, then up
  TensorRef out;       // bf16 [rows, dim]
};

/// The exact GELU, x / 2 * (1 + erf(x / sqrt 2)), in place.
struct GeluParams {
  TensorRef x;  // bf16 [rows, dim]
};

/// The cells of ratio x ratio patches of an image, zeros where a cell reaches over its bottom or right edge.
/// Within a cell the channel is outermost, then the row, then the column (spec 5, Aligner).
struct GatherCellsParams {
  TensorView patches;      // bf16 [patch rows * patch_cols, dim]: the whole image in reading order
  int64_t patch_cols = 0;  // of the image
  int64_t ratio = 0;
  int64_t first_cell = 0;  // of the ceil(patch rows / ratio) * ceil(patch_cols / ratio), in reading order
  TensorRef out;           // bf16 [cells, dim * ratio * ratio]
};

}  // namespace fathom
