// The operations of the fast path, one function each, by concept in the .cc files beside.
//
// f32 sums in orders that are a row's own; within the bounds of spec 1 (Exactness, fast paths). What is meant
// to be exact, quantizers and records, is.
#pragma once

#include "backend/fast/context.h"
#include "base/result.h"
#include "ops/params.h"

namespace fathom::fast {

// linear.cc; weights must have a kernel (linear_kernels.h)
Status linear(const Context&, const LinearParams&);
Status grouped_linear(const Context&, const GroupedLinearParams&);

// route.cc; the gate must have a kernel
Status route(const Context&, const RouteParams&);

// experts.cc; all experts must have kernels
Status expert_layer(const Context&, const ExpertLayerParams&);

// norm.cc
void rms_norm(const Context&, const RmsNormParams&);

// index_select.cc
/// False where only the exact path can: tracing, and shapes that no kernel has.
bool can_select(const IndexSelectParams&);
Status index_select(const Context&, const IndexSelectParams&);

// sparse_attention.cc
void sparse_attention(const Context&, const SparseAttentionParams&);

// hyper.cc
/// The table must be bf16.
void embed(const Context&, const EmbedParams&);
/// The rows must be bf16.
void place_rows(const Context&, const PlaceRowsParams&);
void hyper_mix(const Context&, const HyperMixParams&);
void collapse_norm(const Context&, const CollapseNormParams&);
void expand(const Context&, const ExpandParams&);
void draft_feature(const Context&, const DraftFeatureParams&);

// rope.cc
void rope(const Context&, const RopeParams&);
void index_query(const Context&, const IndexQueryParams&);
void pack_window(const Context&, const PackWindowParams&);
void store_records(const Context&, const StoreRecordsParams&);

// pool.cc
void pool_groups(const Context&, const PoolGroupsParams&);

// engram.cc
void engram_write(const Context&, const EngramWriteParams&);

// vision.cc
void add(const Context&, const AddParams&);
void gated_silu(const Context&, const GatedSiluParams&);
void gelu(const Context&, const GeluParams&);
void patch_rope(const Context&, const PatchRopeParams&);
inline constexpr int64_t max_cell = 64;  // patches
/// Cells of at most max_cell patches.
void gather_cells(const Context&, const GatherCellsParams&);

}  // namespace fathom::fast
