// The index score kernels of an Isa.
#pragma once

#include "backend/fast/isa.h"
#include "backend/fast/simd/index_kernels.h"

namespace fathom::fast {

/// `isa`: one that this processor has.
IndexKernels index_kernels(Isa isa);

}  // namespace fathom::fast
