// The fast path's operations, one function each, by concept in the .cc files beside.
#pragma once

#include "backend/fast/context.h"
#include "ops/params.h"

namespace fathom::fast {

// norm.cc
void rms_norm(const Context&, const RmsNormParams&);

}  // namespace fathom::fast
