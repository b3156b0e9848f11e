// Prepared queries and keys as integers, shared by the AVX-512 and AMX index kernels.
//
// A value of the FP4 grid is a small integer (-12..12) times half a power of two, which its block of 32
// shares. A head of a query, or a key, is *narrow* when the scales of its blocks lie within a factor of 8:
// then all its values are integers of one scale, in 8 bits, and a dot product over all blocks is one exact
// integer sum. A wide one is summed block by block in f32, in the order of its blocks. Where both ways apply
// both are exact, so it does not matter that a group with one wide key takes the second way for all of its
// keys.
#pragma once

#include <cstdint>

#include "backend/fast/simd/index_kernels.h"
#include "backend/fast/simd/lanes.h"

namespace fathom::fast {

/// One row's queries. Heads stand in an order of their own: narrow ones padded to a multiple of 16, then wide
/// ones padded to one of 8, with heads of weight 0.
struct IntegerQuery {
  int64_t dim;
  int64_t num_narrow;         // padded
  int64_t num_wide;           // padded
  int8_t* codes;              // [heads, dim], in the order of the operands
  int32_t* packed;            // [heads / 8, dim / 4, 8]: the same, four codes of 8 heads at a time
  int32_t* correction;        // [heads]: what undoes the keys' offset
  int32_t* block_correction;  // [heads, dim / 32]
  float* relative;            // [heads, dim / 32]: the blocks' scales over the head's
  float* weight;              // [heads]: the head's weight times its scale
};

inline constexpr int64_t integer_query_header = 128;
static_assert(sizeof(IntegerQuery) <= integer_query_header);

/// One group of 16 keys, whose memory is split up so.
struct IntegerKeys {
  uint8_t* operands;  // [dim / 4, 16 keys, 4]: values + 96
  float* relative;    // [dim / 32, 16]: the blocks' scales over the key's
  float* scale;       // [16]
  uint32_t* wide;     // [1]: not 0 when one of the keys is wide
};

namespace avx512 {
/// Adds the heads from `first_head` on to a group's scores [16], which are without the keys' scales, block by
/// block.
void index_add_blocks(const IntegerQuery& query, const IntegerKeys& keys, int64_t first_head, float* scores);
/// IndexKernels::score.
void index_score(const uint8_t* query, const uint8_t* keys, int64_t groups, const uint8_t* const* next,
                 float* scores);
}  // namespace avx512

namespace FATHOM_ISA {

FATHOM_SIMD int64_t integer_keys_bytes(int64_t dim) { return dim * 16 + dim / index_block * 64 + 128; }

FATHOM_SIMD IntegerKeys place_keys(const uint8_t* keys, int64_t dim) {
  auto* at = const_cast<uint8_t*>(keys);
  auto* relative = reinterpret_cast<float*>(at + dim * 16);
  float* scale = relative + dim / index_block * 16;
  return {at, relative, scale, reinterpret_cast<uint32_t*>(scale + 16)};
}

}  // namespace FATHOM_ISA

}  // namespace fathom::fast
