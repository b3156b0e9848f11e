// The matrix product under every linear of the fast path: weights in their stored formats times bf16 rows.
//
// Power-of-two scales make every dequantized weight exact in bf16, so a product of bf16 pairs with f32 sums
// is the specified one up to the order of summation (spec 7, Arithmetic). That order is fixed by the columns
// alone: a result has the same bits whichever kernel, however many rows and weights, it was computed with.
//
// Plain structs and function pointers: the files behind them are compiled for one instruction set each.
#pragma once

#include <cstdint>

namespace fathom::fast {

enum class WeightFormat : int32_t {
  bf16,
  fp8,  // E4M3, an E8M0 scale for 32 x 32 weights
  fp4,  // packed E2M1, an E8M0 scale for a row's 32 weights
};

/// A weight matrix as stored, [rows, in]; may be unaligned.
struct StoredMatrix {
  WeightFormat format = WeightFormat::bf16;
  int64_t in = 0;  // columns; a multiple of 32 when there are scales
  const uint8_t* codes = nullptr;
  int64_t code_stride = 0;  // bytes from row to row
  const uint8_t* scales = nullptr;
  int64_t scale_stride = 0;    // bytes from scale row to scale row
  int64_t rows_per_scale = 1;  // weight rows that share a scale row
};

/// Input rows take part arranged: their columns in the order in which the unpacking leaves a weight's, then
/// zeros up to a multiple of `arranged_step`, or more; the kernels choose.
inline constexpr int64_t arranged_step = 128;
constexpr int64_t arranged_columns(int64_t in) {
  return (in + arranged_step - 1) / arranged_step * arranged_step;
}

/// Arranged rows, in blocks of LinearKernels::row_block (the last may be short); 64-byte aligned.
struct ArrangedRows {
  const uint16_t* data = nullptr;
  int64_t block_stride = 0;  // values from block to block
  int64_t rows = 0;
};

inline constexpr int64_t largest_row_block = 16;

struct LinearKernels {
  int64_t row_block = 1;  // how many rows are arranged together, at most largest_row_block

  /// Weight rows that many input rows are best multiplied with: in multiples of `panel_rows`, and no more
  /// than `most_rows` at a time.
  int64_t panel_rows = 1;
  int64_t most_rows = 1;

  /// One block: `width` bf16 rows of `in` values for weights of `format`, to [block_values(in)]. `width` is
  /// row_block, or the number of all rows if that is less; null rows are zeros.
  void (*arrange)(WeightFormat format, const uint16_t* const* rows, int64_t width, int64_t in,
                  uint16_t* out) = nullptr;

  /// out[r * out_stride + o] = weight row (first + o) . x row r, for o in [0, num_out). `panel`: working
  /// memory of panel_bytes(in), 64-byte aligned. False when a scale was NaN; results are unspecified then. A
  /// NaN weight makes its results NaN.
  bool (*multiply)(const StoredMatrix& weight, int64_t first, int64_t num_out, const ArrangedRows& x,
                   float* out, int64_t out_stride, uint8_t* panel) = nullptr;
  int64_t (*panel_bytes)(int64_t in) = nullptr;
  int64_t (*block_values)(int64_t in) = nullptr;
};

namespace portable {
extern const LinearKernels linear;
}
namespace avx2 {
extern const LinearKernels linear;
}
namespace avx512 {
extern const LinearKernels linear;
}
namespace amx {
extern const LinearKernels linear;
}

}  // namespace fathom::fast
