#include "backend/fast/fast_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "backend/cpu/exact_ops.h"

namespace fathom {
namespace {

/// What has no fast version is the exact path's.
class FastCpuOps final : public ExactCpuOps {
 public:
  FastCpuOps(int num_threads, Isa isa)
      : ExactCpuOps(num_threads), name_(fmt::format("cpu-{}", isa_name(isa))) {}

  std::string_view name() const override { return name_; }

 private:
  std::string name_;
};

}  // namespace

std::unique_ptr<Ops> make_fast_cpu_ops(int num_threads, Isa isa) {
  const std::span<const Isa> isas = available_isas();
  FATHOM_CHECK(std::find(isas.begin(), isas.end(), isa) != isas.end());
  return std::make_unique<FastCpuOps>(num_threads, isa);
}

}  // namespace fathom
