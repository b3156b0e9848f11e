// Attention by AMX: 16 heads times 64 keys, or 32 values, in tiles.
#include "backend/fast/simd/amx_tiles.h"
#include "backend/fast/simd/attention_softmax.h"
#include "backend/fast/simd/attention_unpack.h"

namespace fathom::fast::amx {
namespace {

constexpr int64_t heads = 16;
constexpr int64_t group_keys = attention_group;

// Queries: bf16 [16, dim].
int64_t query_bytes(int64_t dim) { return heads * dim * 2; }
int64_t state_bytes(int64_t dim) { return attention_state_bytes(heads, dim); }

void start(const bf16* q, const float* sinks, int64_t num_heads, int64_t dim, uint8_t* query,
           uint8_t* state) {
  __builtin_memcpy(query, q, static_cast<size_t>(num_heads * dim * 2));
  __builtin_memset(query + num_heads * dim * 2, 0, static_cast<size_t>((heads - num_heads) * dim * 2));
  start_attention(sinks, num_heads, heads, dim, place_attention_state(state, heads));
}

// scores: f32 [16 heads, tile], 32 of the keys, or 64.
FATHOM_SIMD void score_keys(const uint8_t* query, const uint8_t* keys, bool four, int64_t dim,
                            float* scores) {
  const int64_t group = group_keys * dim * 2;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t c = 0; c < dim / 32; ++c, query += 64, keys += group_keys * 64) {
    _tile_loadd(4, query, static_cast<size_t>(dim * 2));
    _tile_loadd(5, keys, 64);
    _tile_dpbf16ps(0, 4, 5);
    _tile_loadd(6, keys + group, 64);
    _tile_dpbf16ps(1, 4, 6);
    if (!four) continue;
    _tile_loadd(7, keys + 2 * group, 64);
    _tile_dpbf16ps(2, 4, 7);
    _tile_loadd(5, keys + 3 * group, 64);
    _tile_dpbf16ps(3, 4, 5);
  }
  _tile_stored(0, scores, attention_tile * 4);
  _tile_stored(1, scores + group_keys, attention_tile * 4);
  if (!four) return;
  _tile_stored(2, scores + 2 * group_keys, attention_tile * 4);
  _tile_stored(3, scores + 3 * group_keys, attention_tile * 4);
}

// sums: 32 values of every head, dim apart; weights: bf16 [16 heads, tile].
FATHOM_SIMD void add_values(const uint16_t* weights, const uint8_t* values, int64_t num_keys, int64_t dim,
                            float* sums) {
  const auto stride = static_cast<size_t>(dim * 4);
  _tile_loadd(0, sums, stride);
  _tile_loadd(1, sums + 16, stride);
  for (int64_t k = 0; k < num_keys; k += 32, values += 16 * value_row_bytes) {
    _tile_loadd(4, weights + k, attention_tile * 2);
    _tile_loadd(5, values, value_row_bytes);
    _tile_dpbf16ps(0, 4, 5);
    _tile_loadd(6, values + 64, value_row_bytes);
    _tile_dpbf16ps(1, 4, 6);
  }
  _tile_stored(0, sums, stride);
  _tile_stored(1, sums + 16, stride);
}

FATHOM_SIMD void rescale(const AttentionState& sums, int64_t dim) {
  for (int64_t h = 0; h < heads; ++h) {
    if (sums.rescale[h] == 1) continue;
    const f32x16 factor = splat(sums.rescale[h]);
    for (int64_t i = h * dim; i < (h + 1) * dim; i += 16)
      store(sums.values + i, load(sums.values + i) * factor);
  }
}

void attend(const uint8_t* query, const uint8_t* tile, int64_t num_keys, int64_t dim, uint8_t* state) {
  alignas(64) float scores[heads * attention_tile];
  alignas(64) uint16_t weights[heads * attention_tile];
  const AttentionState sums = place_attention_state(state, heads);
  const int64_t whole = (num_keys + 31) / 32 * 32;
  configure_tiles();
  for (int64_t k = 0; k < whole; k += 64)
    score_keys(query, tile + k * dim * 2, whole - k > 32, dim, scores + k);
  weigh_heads_bf16(scores, heads, num_keys, dim, sums, weights);
  rescale(sums, dim);
  publish_to_tiles();
  const uint8_t* values = tile + score_keys_bytes(dim);
  for (int64_t i = 0; i < dim; i += 32, values += attention_tile / 2 * value_row_bytes)
    add_values(weights, values, whole, dim, sums.values + i);
  _tile_release();
}

void finish(const uint8_t* state, int64_t num_heads, int64_t dim, bf16* out) {
  finish_attention(place_attention_state(state, heads), num_heads, dim, out);
}

}  // namespace

void add_attention_kernels(AttentionKernels& to) {
  to.head_block = heads;
  to.query_bytes = query_bytes;
  to.state_bytes = state_bytes;
  to.start = start;
  to.attend = attend;
  to.finish = finish;
}

}  // namespace fathom::fast::amx
