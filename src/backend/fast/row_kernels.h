// The row-wise kernels for an Isa.
#pragma once

#include "backend/fast/isa.h"
#include "backend/fast/simd/row_kernels.h"

namespace fathom::fast {

/// `isa` is one of available_isas(). The AMX machines use the AVX-512 kernels for rows.
RowKernels row_kernels(Isa isa);

}  // namespace fathom::fast
