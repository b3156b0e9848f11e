// The exact CPU path behind ops/ops.h: plain, multi-threaded over rows and outputs, every rounding point as
// specified. Results depend on neither thread count nor batch.
#pragma once

#include <memory>

#include "ops/ops.h"

namespace fathom {

/// `num_threads` >= 1.
std::unique_ptr<Ops> make_exact_cpu_ops(int num_threads);

}  // namespace fathom
