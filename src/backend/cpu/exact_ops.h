// The exact CPU path as a class, for a faster one to build on.
#pragma once

#include <string_view>
#include <vector>

#include "backend/cpu/kernels.h"
#include "ops/ops.h"

namespace fathom {

class ExactCpuOps : public Ops {
 public:
  explicit ExactCpuOps(int num_threads);

  std::string_view name() const override { return "cpu-exact"; }

  Result<Buffer> allocate(int64_t bytes) override;
  void copy_in(TensorRef to, const void* from) override { copy(to.data, from, TensorView(to).bytes()); }
  void copy_out(void* to, TensorView from) override { copy(to, from.data, from.bytes()); }

  void embed(const EmbedParams& p) override { cpu::embed(context_, p); }
  void hyper_mix(const HyperMixParams& p) override { cpu::hyper_mix(context_, p); }
  void collapse_norm(const CollapseNormParams& p) override { cpu::collapse_norm(context_, p); }
  void expand(const ExpandParams& p) override { cpu::expand(context_, p); }
  Status linear(const LinearParams& p) override { return cpu::linear(context_, p); }
  Status grouped_linear(const GroupedLinearParams& p) override { return cpu::grouped_linear(context_, p); }
  void rms_norm(const RmsNormParams& p) override { cpu::rms_norm(context_, p); }
  void rope(const RopeParams& p) override { cpu::rope(context_, p); }
  void pack_window(const PackWindowParams& p) override { cpu::pack_window(context_, p); }
  void store_window(const StoreWindowParams& p) override { cpu::store_window(context_, p); }
  void sparse_attention(const SparseAttentionParams& p) override { cpu::sparse_attention(context_, p); }
  void pool_groups(const PoolGroupsParams& p) override { cpu::pool_groups(context_, p); }
  void store_records(const StoreRecordsParams& p) override { cpu::store_records(context_, p); }
  void index_query(const IndexQueryParams& p) override { cpu::index_query(context_, p); }
  Status index_select(const IndexSelectParams& p) override { return cpu::index_select(context_, p); }
  Status route(const RouteParams& p) override { return cpu::route(context_, p); }
  Status expert_layer(const ExpertLayerParams& p) override { return cpu::expert_layer(context_, p); }
  Status engram_gather(const EngramGatherParams& p) override { return cpu::engram_gather(context_, p); }
  void engram_write(const EngramWriteParams& p) override { cpu::engram_write(context_, p); }
  void draft_feature(const DraftFeatureParams& p) override { cpu::draft_feature(context_, p); }
  void markov_step(const MarkovStepParams& p) override { cpu::markov_step(context_, p); }
  void place_rows(const PlaceRowsParams& p) override { cpu::place_rows(context_, p); }
  void patch_rope(const PatchRopeParams& p) override { cpu::patch_rope(context_, p); }
  void patch_attention(const PatchAttentionParams& p) override { cpu::patch_attention(context_, p); }
  void add(const AddParams& p) override { cpu::add(context_, p); }
  void gated_silu(const GatedSiluParams& p) override { cpu::gated_silu(context_, p); }
  void gelu(const GeluParams& p) override { cpu::gelu(context_, p); }
  void gather_cells(const GatherCellsParams& p) override { cpu::gather_cells(context_, p); }

 protected:
  const cpu::Context& context() const { return context_; }

 private:
  static void copy(void* to, const void* from, int64_t bytes);

  ThreadPool pool_;
  cpu::Scratch scratch_;
  std::vector<cpu::Scratch> worker_;
  cpu::Context context_;
};

}  // namespace fathom
