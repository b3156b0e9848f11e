// The exact CPU path's kernels, one function per operation of ops/ops.h, by concept in the .cc files beside.
//
// Every rounding point of spec 1 and no others; every reduction in f64 (but the sum over experts, f32).
#pragma once

#include "backend/cpu/context.h"
#include "base/result.h"
#include "ops/params.h"

namespace fathom::cpu {

// embed.cc and hyper.cc
void embed(const Context&, const EmbedParams&);
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

// attention.cc and indexer.cc
void sparse_attention(const Context&, const SparseAttentionParams&);
void index_select(const Context&, const IndexSelectParams&);

// moe.cc
void route(const Context&, const RouteParams&);
Status expert_layer(const Context&, const ExpertLayerParams&);

// engram.cc
Status engram_gather(const Context&, const EngramGatherParams&);
void engram_write(const Context&, const EngramWriteParams&);

/// The error of a NaN scale met in `weight`.
Status nan_scale(const Weight& weight);

}  // namespace fathom::cpu
