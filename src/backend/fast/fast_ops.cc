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
        fast_{ExactCpuOps::context().pool, isa, fast::row_kernels(isa), scratch_, worker_} {}

  std::string_view name() const override { return name_; }

  void rms_norm(const RmsNormParams& p) override { fast::rms_norm(fast_, p); }

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
