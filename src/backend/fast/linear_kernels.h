// The linear kernels for an Isa, and weights as they take them.
#pragma once

#include "backend/fast/isa.h"
#include "backend/fast/simd/linear_kernels.h"
#include "tensor/weight.h"

namespace fathom::fast {

/// `isa` is one of available_isas().
const LinearKernels& linear_kernels(Isa isa);

/// Whether the kernels take this weight as it is stored. Plain weights other than bf16 are the exact path's.
bool has_kernel(const Weight& weight);

/// `weight` must have a kernel.
StoredMatrix stored_matrix(const Weight& weight);

}  // namespace fathom::fast
