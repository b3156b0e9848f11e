#include "backend/fast/fast_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "backend/cpu/exact_ops.h"
#include "backend/fast/operations.h"

namespace fathom {
namespace {

/// What has no fast version is the exact path's.
class FastCpuOps final : public ExactCpuOps {
 public:
  FastCpuOps(int num_threads, Isa isa)
      : ExactCpuOps(num_threads),
        name_(fmt::format("cpu-{}", isa_name(isa))),
        worker_(static_cast<size_t>(num_threads)),
        fast_{ExactCpuOps::context().pool, isa,      fast::row_kernels(isa),
              fast::linear_kernels(isa),   scratch_, worker_} {}

  std::string_view name() const override { return name_; }

  void embed(const EmbedParams& p) override {
    if (p.table.dtype == DType::bf16)
      fast::embed(fast_, p);
    else
      ExactCpuOps::embed(p);
  }
  void place_rows(const PlaceRowsParams& p) override {
    if (p.rows.dtype == DType::bf16)
      fast::place_rows(fast_, p);
    else
      ExactCpuOps::place_rows(p);
  }
  void hyper_mix(const HyperMixParams& p) override { fast::hyper_mix(fast_, p); }
  void collapse_norm(const CollapseNormParams& p) override { fast::collapse_norm(fast_, p); }
  void expand(const ExpandParams& p) override { fast::expand(fast_, p); }
  Status linear(const LinearParams& p) override {
    return fast::has_kernel(p.weight) ? fast::linear(fast_, p) : ExactCpuOps::linear(p);
  }
  Status grouped_linear(const GroupedLinearParams& p) override {
    return fast::has_kernel(p.weight) ? fast::grouped_linear(fast_, p) : ExactCpuOps::grouped_linear(p);
  }
  Status route(const RouteParams& p) override {
    return fast::has_kernel({p.gate, {}, {}}) ? fast::route(fast_, p) : ExactCpuOps::route(p);
  }
  Status expert_layer(const ExpertLayerParams& p) override { return fast::expert_layer(fast_, p); }
  void rms_norm(const RmsNormParams& p) override { fast::rms_norm(fast_, p); }
  void rope(const RopeParams& p) override { fast::rope(fast_, p); }
  void pack_window(const PackWindowParams& p) override { fast::pack_window(fast_, p); }
  void pool_groups(const PoolGroupsParams& p) override { fast::pool_groups(fast_, p); }
  void store_records(const StoreRecordsParams& p) override { fast::store_records(fast_, p); }
  void index_query(const IndexQueryParams& p) override { fast::index_query(fast_, p); }
  void engram_write(const EngramWriteParams& p) override { fast::engram_write(fast_, p); }
  void draft_feature(const DraftFeatureParams& p) override { fast::draft_feature(fast_, p); }
  void patch_rope(const PatchRopeParams& p) override { fast::patch_rope(fast_, p); }
  void gather_cells(const GatherCellsParams& p) override {
    if (p.ratio * p.ratio <= fast::max_cell)
      fast::gather_cells(fast_, p);
    else
      ExactCpuOps::gather_cells(p);
  }
  void add(const AddParams& p) override { fast::add(fast_, p); }
  void gated_silu(const GatedSiluParams& p) override { fast::gated_silu(fast_, p); }
  void gelu(const GeluParams& p) override { fast::gelu(fast_, p); }
  void sparse_attention(const SparseAttentionParams& p) override { fast::sparse_attention(fast_, p); }
  Status index_select(const IndexSelectParams& p) override {
    return fast::can_select(p) ? fast::index_select(fast_, p) : ExactCpuOps::index_select(p);
  }

 private:
  std::string name_;
  fast::Scratch scratch_;
  std::vector<fast::Scratch> worker_;
  fast::Context fast_;
};

}  // namespace

std::unique_ptr<Ops> make_fast_cpu_ops(int num_threads, Isa isa) {
  const std::span<const Isa> isas = available_isas();
  FATHOM_CHECK(std::find(isas.begin(), isas.end(), isa) != isas.end());
  return std::make_unique<FastCpuOps>(num_threads, isa);
}

}  // namespace fathom
