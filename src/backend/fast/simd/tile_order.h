// The sums of AMX's tiles, computed by AVX-512: for few rows, which tiles serve badly.
//
// A tile product spends as much on one input row as on sixteen, and its weights have to be unpacked to memory
// first. Registers read a stream of weights twice as fast, but a result must not depend on the number of
// rows. So this adds up as TDPBF16PS does. For every 32 columns, from zero: the even and the odd places of
// their pairs, each in a chain of fused multiply-adds; then the two sums, then that onto the result.
// Subnormal numbers are zero everywhere.
#pragma once

#include <cstdint>

#include "backend/fast/simd/linear_kernels.h"

namespace fathom::fast::avx512::tile_order {

/// More input rows are for tiles.
inline constexpr int64_t most_rows = 4;

/// Lanes are blocks of 32 columns, so 16 of them are worked on together.
inline constexpr int64_t group_columns = 512;
constexpr int64_t row_values(int64_t in) { return (in + group_columns - 1) / group_columns * group_columns; }

/// `count` rows of `in` bf16 values to f32 [count, row_values(in)], 64-byte aligned, in an order of its own.
/// With `format` fp4 or fp8 tiny ones are zero (see unpack_avx512.h).
void arrange(WeightFormat format, const uint16_t* const* rows, int64_t count, int64_t in, float* out);

/// The reverse, to bf16 rows of row_values(in): each block of 32 columns in a tile's order.
void restore(WeightFormat format, const float* x, int64_t count, int64_t in, uint16_t* out);

/// LinearKernels::multiply for `rows` arranged rows, 1 to most_rows. False when a scale is out of the usual;
/// nothing is done then. `memory`: memory_bytes(in), 64-byte aligned.
bool multiply(const StoredMatrix& weight, int64_t first, int64_t num_out, const float* x, int64_t rows,
              float* out, int64_t out_stride, uint8_t* memory);
int64_t memory_bytes(int64_t in);

}  // namespace fathom::fast::avx512::tile_order
