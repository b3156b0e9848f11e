#include "backend/cpu/cpu_ops.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "backend/cpu/kernels.h"

namespace fathom {
namespace {

class ExactCpuOps final : public Ops {
 public:
  explicit ExactCpuOps(int num_threads)
      : pool_(num_threads),
        worker_(static_cast<size_t>(num_threads)),
        context_{pool_, cpu::select_dot_kernels(), scratch_, worker_} {}

  std::string_view name() const override { return "cpu-exact"; }

  Result<Buffer> allocate(int64_t bytes) override {
    FATHOM_CHECK_LE(0, bytes);
    // calloc takes large blocks from the kernel as zero pages: memory is used when it is first written.
    constexpr size_t alignment = 64;
    void* block = std::calloc(static_cast<size_t>(bytes) + alignment, 1);
    if (block == nullptr) return fail(ErrorCode::out_of_memory, "cannot allocate {} bytes", bytes);
    const auto address = (reinterpret_cast<uintptr_t>(block) + alignment - 1) / alignment * alignment;
    return Buffer(reinterpret_cast<std::byte*>(address), bytes, block,
                  [](void* owner, std::byte*, int64_t) { std::free(owner); });
  }
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

 private:
  static void copy(void* to, const void* from, int64_t bytes) {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }

  ThreadPool pool_;
  cpu::Scratch scratch_;
  std::vector<cpu::Scratch> worker_;
  cpu::Context context_;
};

}  // namespace

std::unique_ptr<Ops> make_exact_cpu_ops(int num_threads) {
  return std::make_unique<ExactCpuOps>(num_threads);
}

}  // namespace fathom
