// The inner loops of attention over cache records (spec 1, Attention), one table for each Isa.
//
// Keys, which are the values too, are unpacked in groups of 16 and attended to in tiles of 128, in the order
// of their row's list; the heads go through them in blocks, with the running softmax of one pass. So a row's
// result depends on its own queries and keys alone. Prepared memory belongs to the caller, is aligned to 64
// bytes, and what stands in it is the kernels' own affair.
#pragma once

#include <cstdint>

#include "tensor/bfloat16.h"

namespace fathom::fast {

inline constexpr int64_t attention_group = 16;
inline constexpr int64_t attention_tile = 128;

/// A window record (spec 7), a compressed one, or none: a place that the list does not fill.
struct AttentionKey {
  const uint8_t* record;
  bool compressed;
};

struct AttentionKernels {
  int64_t head_block;  // heads at a time
  /// Bytes of a head block's queries, of a head block's running sums, and of a tile: multiples of 64.
  int64_t (*query_bytes)(int64_t dim);
  int64_t (*state_bytes)(int64_t dim);
  int64_t (*tile_bytes)(int64_t dim);

  /// q: bf16 [heads, dim] and sinks: f32 [heads] of one block, 1 <= heads <= head_block; dim: a multiple
  /// of 32. Starts the running sums.
  void (*start)(const bf16* q, const float* sinks, int64_t heads, int64_t dim, uint8_t* query,
                uint8_t* state);
  /// The keys of one group to their place in a tile.
  void (*unpack)(const AttentionKey* keys, int64_t group, int64_t dim, uint8_t* tile);
  /// The first `num_keys` keys of a tile; the last group they reach into is unpacked whole, and so is the one
  /// after it when that makes their number even.
  void (*attend)(const uint8_t* query, const uint8_t* tile, int64_t num_keys, int64_t dim, uint8_t* state);
  /// out: bf16 [heads, dim].
  void (*finish)(const uint8_t* state, int64_t heads, int64_t dim, bf16* out);
};

namespace portable {
void add_attention_kernels(AttentionKernels& to);
}
namespace avx2 {
void add_attention_kernels(AttentionKernels& to);
}
namespace avx512 {
void add_attention_kernels(AttentionKernels& to);
}
namespace amx {
/// To be called after avx512's.
void add_attention_kernels(AttentionKernels& to);
}  // namespace amx

}  // namespace fathom::fast
