// The fast path's operations, one function each, by concept in the .cc files beside.
#pragma once

#include "backend/fast/context.h"
#include "base/result.h"
#include "ops/params.h"

namespace fathom::fast {

// norm.cc
void rms_norm(const Context&, const RmsNormParams&);

// index_select.cc
/// False where only the exact path can: tracing, and shapes that no kernel has.
bool can_select(const IndexSelectParams&);
Status index_select(const Context&, const IndexSelectParams&);

// sparse_attention.cc
void sparse_attention(const Context&, const SparseAttentionParams&);

}  // namespace fathom::fast
