// The fast CPU path behind ops/ops.h: weights used in their stored formats, f32 sums in fixed orders, the
// best instructions that the processor has. Within the bounds of spec 1 (Exactness, fast paths) of the exact
// path; results depend on neither thread count nor batch.
#pragma once

#include <memory>

#include "backend/fast/isa.h"
#include "ops/ops.h"

namespace fathom {

/// `num_threads` >= 1; `isa` one of available_isas().
std::unique_ptr<Ops> make_fast_cpu_ops(int num_threads, Isa isa = best_isa());

}  // namespace fathom
