// Sixteen lanes of float or 32-bit integers, for kernels that are compiled once for each Isa.
//
// A file that includes this is compiled with the flags of one Isa and FATHOM_ISA set to its name
// (cmake/simd.cmake). It must leave no weak symbols behind: the linker keeps any one copy of those, and a
// copy compiled for AVX-512 would then run on every processor. So everything here is static and always
// inlined, and the standard library's templates stay out of such files (a test looks at the objects).
#pragma once

#include "backend/fast/simd/lanes.h"
#include "backend/fast/simd/lanes_math.h"
#include "backend/fast/simd/lanes_memory.h"
