// The exact CPU path's kernels, one function per operation of ops/ops.h, by concept in the .cc files beside.
//
// Every rounding point of spec 1 and no others; every reduction in f64 (but the sum over experts, f32).
#pragma once

#include <span>
#include <vector>

#include "backend/cpu/context.h"
#include "base/result.h"
#include "ops/params.h"

namespace fathom::cpu {

// embed.cc and hyper.cc
void embed(const Context&, const EmbedParams&);
void place_rows(const Context&, const PlaceRowsParams&);
void hyper_mix(const Context&, const HyperMixParams&);
void collapse_norm(const Context&, const CollapseNormParams&);
void expand(const Context&, const ExpandParams&);
/// One row of hyper_mix after its linear: the coefficient sets from m (f64 [(2 + hc) * hc]).
void hyper_split(const double* m, const float* scale, const float* base, int64_t hc, int64_t iters,
                 double eps, float* pre, float* post, float* comb);

// linear.cc
Status linear(const Context&, const LinearParams&);
Status grouped_linear(const Context&, const GroupedLinearParams&);
/// out(row, column, value) for x (f32 [rows, in], rows in_stride apart) times the weight rows
/// [first_out, first_out + num_out); `x` is used as it is. Errors: a NaN scale, naming its tensor.
template <class Store>
Status multiply(const Context&, const float* x, int64_t rows, int64_t in_stride, const Weight&,
                int64_t first_out, int64_t num_out, const Store& store);
/// bf16 rows as float, on the FP8 grid when `quantize`.
void prepare_input(const Context&, const bf16* in, int64_t rows, int64_t n, bool quantize, float* out);

// norm_rope.cc
void rms_norm(const Context&, const RmsNormParams&);
void rope(const Context&, const RopeParams&);
void index_query(const Context&, const IndexQueryParams&);

// cache.cc
void pack_window(const Context&, const PackWindowParams&);
void store_window(const Context&, const StoreWindowParams&);
void store_records(const Context&, const StoreRecordsParams&);
void pool_groups(const Context&, const PoolGroupsParams&);

// attention.cc
/// Queries over the keys that they all see, all as float: the heads of one row, or one head of several rows.
struct AttendParams {
  const float* const* queries = nullptr;  // [num_queries] rows of dim
  int64_t num_queries = 0;
  const float* const* keys = nullptr;    // [num_keys] rows of dim
  const float* const* values = nullptr;  // [num_keys] rows of dim; may be the keys
  int64_t num_keys = 0;                  // at least 1
  int64_t dim = 0;
  const float* sinks = nullptr;  // [num_queries], or null: none
};
/// Softmax, with a sink in the denominator; out: float [num_queries, dim], rounded to bf16. `scores` is
/// working memory that keeps its size between calls.
void attend(const Context&, const AttendParams&, std::vector<double>& scores, float* out);
void sparse_attention(const Context&, const SparseAttentionParams&);

// indexer.cc
/// The blocks of `block` positions with the largest maxima among scores [0, visible), the newest always: at
/// most k, ascending, to `out`. Returns how many.
int32_t choose_blocks(std::span<const float> scores, int64_t visible, int64_t block, int64_t k, int32_t* out);
Status index_select(const Context&, const IndexSelectParams&);

// moe.cc
/// bf16(silu(gate) * up * weight) with gate and up clamped to `limit` (0: off).
float swiglu(float gate, float up, double limit, float weight);
/// Router logits to scores, in place: f(logits), n of them.
void score_logits(RouterScore, double* logits, int64_t n);
Status route(const Context&, const RouteParams&);
Status expert_layer(const Context&, const ExpertLayerParams&);

// engram.cc
Status engram_gather(const Context&, const EngramGatherParams&);
void engram_write(const Context&, const EngramWriteParams&);

// draft.cc
void draft_feature(const Context&, const DraftFeatureParams&);
void markov_step(const Context&, const MarkovStepParams&);

// patches.cc
void patch_rope(const Context&, const PatchRopeParams&);
void patch_attention(const Context&, const PatchAttentionParams&);
void gather_cells(const Context&, const GatherCellsParams&);

// elementwise.cc
void add(const Context&, const AddParams&);
void gated_silu(const Context&, const GatedSiluParams&);
void gelu(const Context&, const GeluParams&);

/// The error of a NaN scale met in `weight`.
Status nan_scale(const Weight& weight);

/// Starts reading a large weight that is about to be used from its mapped file (base/page_advice.h).
void will_need(const Weight& weight);

}  // namespace fathom::cpu
