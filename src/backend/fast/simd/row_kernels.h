// The row-wise kernels of the fast path, one table for each Isa: what they take and give.
//
// Pointers need no alignment. Lengths may be any, 0 included, unless said otherwise. A result depends on the
// arguments alone. Only declarations here: the kernels' own files include this (see simd/vec.h).
#pragma once

#include <cstdint>

#include "ops/router_score.h"
#include "tensor/bfloat16.h"

namespace fathom::fast {

inline constexpr int max_copies = 16;  // of the residual stream

/// Columns of the mixing matrix that are multiplied at a time.
struct MixChunk {
  const float* fn;  // at its first row and the chunk's first column
  int64_t mixes;    // rows
  int64_t stride;   // elements from row to row, of the matrix and of the input
  int64_t n;        // columns
};

struct RouteRow {
  RouterScore score;
  int64_t experts;
  int64_t chosen;  // at most `experts`
  double scale;
};

struct RowKernels {
  // norm.cc
  void (*to_floats)(const bf16* in, int64_t n, float* out);
  void (*multiply)(const float* a, const float* b, int64_t n, float* out);
  /// out = weight * (x / rms(x)); out may be x.
  void (*rms_norm)(const bf16* x, const float* weight, int64_t n, double eps, bf16* out);

  // hyper.cc
  /// out, [rows, mixes + 1]: the chunk's part of the products of x's rows and, last, of their sums of
  /// squares. `x` is at the chunk's first column.
  void (*mix_chunk)(const MixChunk&, const bf16* x, int64_t rows, float* out);
  /// The coefficient sets of four copies from m [24]; iterations >= 1.
  void (*mix_split4)(const float* m, const float* scale, const float* base, int64_t iterations, double hc_eps,
                     float* pre, float* post, float* comb);
  /// Sum over the copies (`dim` apart, at least one) of pre[c] * stream[c].
  void (*collapse)(const bf16* stream, const float* pre, int64_t copies, int64_t dim, bf16* out);
  void (*mean_copies)(const bf16* stream, int64_t copies, int64_t dim, bf16* out);
  /// stream[j] = post[j] * y + sum over c of comb[c][j] * stream[c]; up to max_copies.
  void (*expand)(const bf16* y, const float* post, const float* comb, int64_t copies, int64_t dim,
                 bf16* stream);
  /// The sums of h * key * qk, h^2 and key^2.
  void (*engram_sums)(const bf16* h, const bf16* key, const float* qk, int64_t n, float* sums);
  /// to += factor * value, rounded once.
  void (*add_scaled)(const bf16* value, float factor, int64_t n, bf16* to);

  // rotate.cc
  /// f32 cos and sin of f64 angles of at most 2^20.
  void (*cos_sin)(const double* angles, int64_t n, float* cosine, float* sine);
  /// Turns neighbours (2 i, 2 i + 1) of each head's 2 * pairs values; heads are `stride` apart.
  void (*rotate_pairs)(bf16* x, int64_t heads, int64_t stride, int64_t pairs, const float* cosine,
                       const float* sine);
  /// Turns (i, half + i) of heads of 2 * half values.
  void (*rotate_halves)(bf16* x, int64_t heads, int64_t half, const float* cosine, const float* sine);

  // quantize.cc: lengths are multiples of 32; codes and values are exactly those of tensor/quantize.h
  /// round_to_fp8_grid; out may be in.
  void (*fp8_grid)(const bf16* in, int64_t n, bf16* out);
  /// bf16(silu(gate) * up * weight), clamped to `limit` (0: off), on the FP8 grid.
  void (*swiglu)(const bf16* gate, const bf16* up, int64_t n, float limit, float weight, bf16* hidden);
  /// round_to_index_fp4_grid, in place.
  void (*index_fp4_grid)(bf16* x, int64_t n);
  /// Records of rotated values (tensor/cache_layout.h).
  void (*pack_window)(const bf16* x, int64_t dim, uint8_t* record);
  void (*pack_index)(const bf16* x, int64_t dim, uint8_t* record);
  void (*pack_compressed)(const bf16* x, int64_t dim, uint8_t* record);

  // elements.cc
  void (*add)(const bf16* y, int64_t n, bf16* x);  // x += y
  void (*gated_silu)(const bf16* gate, const bf16* up, int64_t n, bf16* out);
  void (*gelu)(int64_t n, bf16* x);
  void (*add_row)(const bf16* row, int64_t n, float* to);  // to += row, in f32
  void (*round_row)(const float* from, int64_t n, bf16* out);
  /// The rows added up in f32 in their order, rounded once.
  void (*sum_rows)(const bf16* const* rows, int64_t count, int64_t n, bf16* out);
  /// Softmax over `ratio` rows of scores, channel by channel, and the weighted sum of the rows of kv.
  void (*pool_group)(const float* const* kv, const float* const* score, int64_t ratio, int64_t n, bf16* out);

  // route.cc
  /// The experts of one row by larger score + bias, ties to the lower one, and their weights. `work`: 2
  /// floats for each expert, their number rounded up to 16. False when a biased score is NaN: nothing is
  /// written then.
  bool (*route_row)(const RouteRow&, const float* logits, const float* bias, float* work, int32_t* experts,
                    float* weights);
};

#define FATHOM_ROW_KERNELS(isa)              \
  namespace isa {                            \
  void add_norm_kernels(RowKernels& to);     \
  void add_hyper_kernels(RowKernels& to);    \
  void add_rotate_kernels(RowKernels& to);   \
  void add_quantize_kernels(RowKernels& to); \
  void add_element_kernels(RowKernels& to);  \
  void add_route_kernels(RowKernels& to);    \
  }
FATHOM_ROW_KERNELS(portable)
FATHOM_ROW_KERNELS(avx2)
FATHOM_ROW_KERNELS(avx512)
#undef FATHOM_ROW_KERNELS

}  // namespace fathom::fast
