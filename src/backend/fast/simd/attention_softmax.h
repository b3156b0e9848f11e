// The running softmax of a block of heads, shared by the attention kernels.
#pragma once

#include "backend/fast/simd/attention_kernels.h"
#include "backend/fast/simd/vec.h"

namespace fathom::fast::FATHOM_ISA {

// A head block's running sums: of each head the largest score so far, the sum of e^(score - largest), and the
// values weighted alike. `rescale` is what a tile's new largest score makes of the sums before it.
struct AttentionState {
  float* largest;  // [head_block]
  float* total;    // [head_block]
  float* rescale;  // [head_block]
  float* values;   // [head_block, dim]
};

FATHOM_SIMD int64_t attention_state_bytes(int64_t head_block, int64_t dim) {
  return (3 * head_block * 4 + 63) / 64 * 64 + head_block * dim * 4;
}

FATHOM_SIMD AttentionState place_attention_state(const uint8_t* state, int64_t head_block) {
  auto* at = reinterpret_cast<float*>(const_cast<uint8_t*>(state));
  return {at, at + head_block, at + 2 * head_block, at + (3 * head_block * 4 + 63) / 64 * 16};
}

// The sink is the first score: it weighs no value. Heads that are not there get one of 0. One of infinity is
// taken for the largest number, which leaves the values as little and can be subtracted from itself.
FATHOM_SIMD void start_attention(const float* sinks, int64_t heads, int64_t head_block, int64_t dim,
                                 const AttentionState& state) {
  for (int64_t h = 0; h < head_block; ++h) {
    const float sink = h < heads ? sinks[h] : 0;
    state.largest[h] = sink > __FLT_MAX__ ? __FLT_MAX__ : sink;
    state.total[h] = 1;
  }
  for (int64_t i = 0; i < head_block * dim; i += 16) store(state.values + i, splat(0.0f));
}

// One head's scores of a tile to weights, in place: e^(score * scale - largest), rounded by `round`, which
// the total is made of too. Scores from num_keys on become 0.
template <class Round>
FATHOM_SIMD void weigh(float* scores, int64_t num_keys, float scale, int64_t head,
                       const AttentionState& state, const Round& round) {
  for (int64_t i = num_keys; i < (num_keys + 31) / 32 * 32; ++i) scores[i] = -__builtin_inff();
  f32x16 largest = splat(-__builtin_inff());
  for (int64_t i = 0; i < num_keys; i += 16) {
    const f32x16 s = load(scores + i) * splat(scale);
    store(scores + i, s);
    largest = max(s, largest);  // leaves NaN out: its weight is NaN anyway
  }
  const float before = state.largest[head];
  const float tile_largest = max_lane(largest);
  const float now = tile_largest > before ? tile_largest : before;
  f32x16 total = splat(0.0f);
  for (int64_t i = 0; i < num_keys; i += 16) {
    const f32x16 w = round(exp(load(scores + i) - splat(now)));
    store(scores + i, w);
    total += w;
  }
  if (num_keys % 32 != 0 && num_keys % 32 <= 16) store(scores + (num_keys + 15) / 16 * 16, splat(0.0f));
  alignas(64) float rescale[16];
  store(rescale, exp(splat(before - now)));
  state.rescale[head] = rescale[0];
  state.total[head] = state.total[head] * rescale[0] + sum(total);
  state.largest[head] = now;
}

// The same for all heads, with keys of `dim` values; scores: f32 [heads, tile].
template <class Round>
FATHOM_SIMD void weigh_heads(float* scores, int64_t heads, int64_t num_keys, int64_t dim,
                             const AttentionState& state, const Round& round) {
  const float scale = 1 / __builtin_sqrtf(static_cast<float>(dim));
  for (int64_t h = 0; h < heads; ++h) weigh(scores + h * attention_tile, num_keys, scale, h, state, round);
}

// For products of bf16: weights are rounded to it, and stand in `weights`, bf16 [heads, tile], afterwards, up
// to a multiple of 32 keys.
FATHOM_SIMD void weigh_heads_bf16(float* scores, int64_t heads, int64_t num_keys, int64_t dim,
                                  const AttentionState& state, uint16_t* weights) {
  weigh_heads(
      scores, heads, num_keys, dim, state,
      [](f32x16 w) __attribute__((always_inline)) { return round_bf16(w); });
  const int64_t whole = (num_keys + 31) / 32 * 32;
  for (int64_t h = 0; h < heads; ++h, scores += attention_tile, weights += attention_tile)
    for (int64_t k = 0; k < whole; k += 16)
      store_bf16(reinterpret_cast<bf16*>(weights) + k, load(scores + k));
}

FATHOM_SIMD void finish_attention(const AttentionState& state, int64_t heads, int64_t dim, bf16* out) {
  for (int64_t h = 0; h < heads; ++h) {
    const f32x16 share = splat(1 / state.total[h]);
    for (int64_t i = h * dim; i < (h + 1) * dim; i += 16) store_bf16(out + i, load(state.values + i) * share);
  }
}

}  // namespace fathom::fast::FATHOM_ISA
