// All ways to compute on this processor, for tests of what holds on every one.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "backend/fast/fast_ops.h"

namespace fathom::testing {

/// The exact path, or the fast one with an Isa.
struct ComputePath {
  std::optional<Isa> isa;

  std::unique_ptr<Ops> ops(int num_threads) const {
    return isa ? make_fast_cpu_ops(num_threads, *isa) : make_exact_cpu_ops(num_threads);
  }
  std::string name() const { return isa ? std::string(isa_name(*isa)) : "exact"; }
  friend void PrintTo(const ComputePath& path, std::ostream* out) { *out << path.name(); }
};

inline std::vector<ComputePath> compute_paths() {
  std::vector<ComputePath> paths = {{}};
  for (Isa isa : available_isas()) paths.push_back({isa});
  return paths;
}

inline std::string path_name(const ::testing::TestParamInfo<ComputePath>& info) { return info.param.name(); }

}  // namespace fathom::testing
