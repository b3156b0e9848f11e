// Fills memory with random values of a stored format that are harmless in any arithmetic: finite, of both
// signs, and of like size, so that nothing is a NaN, a subnormal or a zero that a processor may take faster.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace fathom::bench {

/// `data` is aligned to 8 bytes; formats of integers get any bits. The values depend on `seed` alone.
void fill_random(std::byte* data, int64_t bytes, DType dtype, uint64_t seed, int threads);

}  // namespace fathom::bench
