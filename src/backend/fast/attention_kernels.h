// The attention kernels of an Isa.
#pragma once

#include "backend/fast/isa.h"
#include "backend/fast/simd/attention_kernels.h"

namespace fathom::fast {

/// `isa`: one that this processor has.
AttentionKernels attention_kernels(Isa isa);

}  // namespace fathom::fast
