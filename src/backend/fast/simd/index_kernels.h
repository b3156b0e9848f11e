// The inner loops of the index scores (spec 1, Indexer), one table for each Isa: what they take and give.
//
// Keys are scored in groups of sixteen, which stand in the lanes of a vector. A score is a function of its
// query and key alone, whatever stands in the lanes beside. Prepared queries and keys are memory of the
// caller, aligned to 64 bytes; what stands in it is the kernels' own affair.
#pragma once

#include <cstdint>

namespace fathom::fast {

inline constexpr int64_t index_lanes = 16;
inline constexpr int64_t index_block = 32;  // values that share a scale
inline constexpr int64_t index_max_dim = 256;

struct IndexKernels {
  /// Bytes of a prepared query, and of a group of prepared keys: multiples of 64.
  int64_t (*query_bytes)(int64_t heads, int64_t dim);
  int64_t (*group_bytes)(int64_t dim);

  /// queries: bf16 [heads, dim]; weights: f32 [heads]. False when a query is not on the FP4 grid, or so large
  /// that sums may pass f32: then it cannot be scored here.
  bool (*prepare)(const uint16_t* queries, const float* weights, int64_t heads, int64_t dim, uint8_t* query);

  /// records: [groups * 16] index key records. odd: [groups], bit i: key i of the group cannot be scored here
  /// (its scales are NaN or too large), its score is void.
  void (*unpack)(const uint8_t* const* records, int64_t groups, int64_t dim, uint8_t* keys, uint16_t* odd);

  /// scores: f32 [groups * 16]. next: [groups * 16] records to read ahead meanwhile, or null.
  void (*score)(const uint8_t* query, const uint8_t* keys, int64_t groups, const uint8_t* const* next,
                float* scores);

  /// The first i of [from, n) whose score is above `threshold` or NaN; n when there is none.
  int64_t (*find_above)(const float* scores, int64_t from, int64_t n, float threshold);

  /// out[b] = the largest of scores [b * block, (b + 1) * block), cut at n; NaN is left out.
  void (*block_maxima)(const float* scores, int64_t n, int64_t block, float* out);
};

namespace portable {
void add_index_kernels(IndexKernels& to);
void add_choice_kernels(IndexKernels& to);
}  // namespace portable
namespace avx2 {
void add_index_kernels(IndexKernels& to);
void add_choice_kernels(IndexKernels& to);
}  // namespace avx2
namespace avx512 {
void add_index_kernels(IndexKernels& to);
void add_choice_kernels(IndexKernels& to);
}  // namespace avx512
namespace amx {
/// To be called after avx512's.
void add_index_kernels(IndexKernels& to);
}  // namespace amx

}  // namespace fathom::fast
