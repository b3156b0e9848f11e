// Records to tiles of bf16, for the AVX-512 and AMX attention kernels.
//
// A tile holds its keys twice. For scores: [8 groups, dim / 2, 16 keys, 2 values]. For the value product:
// [dim / 32, 64 pairs of keys, 32 dims, 2 keys]. Either is the right operand of VDPBF16PS and of an AMX tile
// product as it lies.
#pragma once

#include <cstdint>

#include "backend/fast/simd/attention_kernels.h"

namespace fathom::fast {

inline constexpr int64_t value_row_bytes = 32 * 2 * 2;

inline int64_t constexpr score_keys_bytes(int64_t dim) { return attention_tile * dim * 2; }

namespace avx512 {
/// AttentionKernels::unpack.
void unpack_attention_keys(const AttentionKey* keys, int64_t group, int64_t dim, uint8_t* tile);
}  // namespace avx512

}  // namespace fathom::fast
