// The choice of experts from router logits, for whoever multiplies the gate.
#pragma once

#include "backend/fast/context.h"
#include "base/result.h"
#include "ops/params.h"

namespace fathom::fast {

/// The experts and weights of `route` from its logits, f32 [rows, experts]; the gate's values are not read.
/// Errors: format when a biased score is NaN; the results are undefined then.
Status choose_experts(const Context&, const RouteParams&, const float* logits);

}  // namespace fathom::fast
