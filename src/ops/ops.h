// The narrow waist of the house: the model's operations, implemented by each backend.
//
// Operations are fused and semantic, so that fusion stays inside a backend. A backend checks its
// parameters' shapes and dtypes (FATHOM_CHECK: the model layer guarantees them) and computes. Status is
// returned where stored data can turn out bad only when it is read: a NaN scale of an expert or table row,
// or a NaN score, which a choice would hide from everything after it.
// All calls on one Ops come from one thread at a time.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "ops/params.h"

namespace fathom {

class Ops {
 public:
  virtual ~Ops() = default;

  /// "cpu-exact"
  virtual std::string_view name() const = 0;

  /// Zeroed memory for activations and caches, aligned to 64 bytes. Errors: out_of_memory.
  virtual Result<Buffer> allocate(int64_t bytes) = 0;
  virtual void copy_in(TensorRef to, const void* from) = 0;
  virtual void copy_out(void* to, TensorView from) = 0;

  virtual void embed(const EmbedParams&) = 0;
  virtual void hyper_mix(const HyperMixParams&) = 0;
  virtual void collapse_norm(const CollapseNormParams&) = 0;
  virtual void expand(const ExpandParams&) = 0;

  virtual Status linear(const LinearParams&) = 0;
  virtual Status grouped_linear(const GroupedLinearParams&) = 0;
  virtual void rms_norm(const RmsNormParams&) = 0;
  virtual void rope(const RopeParams&) = 0;

  virtual void pack_window(const PackWindowParams&) = 0;
  virtual void store_window(const StoreWindowParams&) = 0;
  virtual void sparse_attention(const SparseAttentionParams&) = 0;
  virtual void pool_groups(const PoolGroupsParams&) = 0;
  virtual void store_records(const StoreRecordsParams&) = 0;

  virtual void index_query(const IndexQueryParams&) = 0;
  virtual Status index_select(const IndexSelectParams&) = 0;

  virtual Status route(const RouteParams&) = 0;
  virtual Status expert_layer(const ExpertLayerParams&) = 0;

  virtual Status engram_gather(const EngramGatherParams&) = 0;
  virtual void engram_write(const EngramWriteParams&) = 0;

  virtual void draft_feature(const DraftFeatureParams&) = 0;
  virtual void markov_step(const MarkovStepParams&) = 0;

  virtual void place_rows(const PlaceRowsParams&) = 0;
  virtual void patch_rope(const PatchRopeParams&) = 0;
  virtual void patch_attention(const PatchAttentionParams&) = 0;
  virtual void add(const AddParams&) = 0;
  virtual void gated_silu(const GatedSiluParams&) = 0;
  virtual void gelu(const GeluParams&) = 0;
  virtual void gather_cells(const GatherCellsParams&) = 0;
};

}  // namespace fathom
