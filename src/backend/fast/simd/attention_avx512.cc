// Attention by VDPBF16PS: 8 heads times 32 keys, or 32 values, in registers.
#include <immintrin.h>

#include "backend/fast/simd/attention_softmax.h"
#include "backend/fast/simd/attention_unpack.h"

namespace fathom::fast::avx512 {
namespace {

constexpr int heads = 8;

// acc += two products in each lane. (The intrinsic makes g++ 12 copy every sum twice a step.)
FATHOM_SIMD void add_pairs(__m512& acc, __m512i a, __m512i b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(acc) : "v"(a), "v"(b));
}

// Queries: [dim / 2, 8 heads, 2 values].
int64_t query_bytes(int64_t dim) { return heads * dim * 2; }
int64_t state_bytes(int64_t dim) { return attention_state_bytes(heads, dim); }
int64_t tile_bytes(int64_t dim) { return 2 * score_keys_bytes(dim); }

// 16 pairs of values of 8 heads to pairs of heads side by side.
FATHOM_SIMD void store_pairs_of_heads(const __m512i* x, uint8_t* out) {
#pragma GCC unroll 2
  for (int i = 0; i < heads; i += 4) {
    const __m512i t0 = _mm512_unpacklo_epi32(x[i], x[i + 1]);
    const __m512i t1 = _mm512_unpackhi_epi32(x[i], x[i + 1]);
    const __m512i t2 = _mm512_unpacklo_epi32(x[i + 2], x[i + 3]);
    const __m512i t3 = _mm512_unpackhi_epi32(x[i + 2], x[i + 3]);
    // 128-bit lane k of the j-th: pair 4 * k + j of four heads.
    const __m512i four[4] = {_mm512_unpacklo_epi64(t0, t2), _mm512_unpackhi_epi64(t0, t2),
                             _mm512_unpacklo_epi64(t1, t3), _mm512_unpackhi_epi64(t1, t3)};
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      auto* at = reinterpret_cast<__m128i*>(out + i * 4 + j * heads * 4);
      constexpr int lane = heads * 4 * 4 / 16;  // from one lane's pair to the next one's
      _mm_store_si128(at, _mm512_castsi512_si128(four[j]));
      _mm_store_si128(at + lane, _mm512_extracti32x4_epi32(four[j], 1));
      _mm_store_si128(at + 2 * lane, _mm512_extracti32x4_epi32(four[j], 2));
      _mm_store_si128(at + 3 * lane, _mm512_extracti32x4_epi32(four[j], 3));
    }
  }
}

void start(const bf16* q, const float* sinks, int64_t num_heads, int64_t dim, uint8_t* query,
           uint8_t* state) {
  for (int64_t i = 0; i < dim; i += 32) {
    __m512i x[heads];
    for (int64_t h = 0; h < heads; ++h)
      x[h] = h < num_heads ? _mm512_loadu_si512(q + h * dim + i) : _mm512_setzero_si512();
    store_pairs_of_heads(x, query + i * heads * 2);
  }
  start_attention(sinks, num_heads, heads, dim, place_attention_state(state, heads));
}

// scores: [8 heads, tile], 32 of the keys.
FATHOM_SIMD void score_keys(const int32_t* query, const uint8_t* keys, int64_t dim, float* scores) {
  __m512 acc[heads][2];
#pragma GCC unroll 8
  for (int h = 0; h < heads; ++h) acc[h][0] = acc[h][1] = _mm512_setzero_ps();
  const uint8_t* more_keys = keys + attention_group * dim * 2;
  for (int64_t i = 0; i < dim / 2; ++i, query += heads) {
    const __m512i a = _mm512_load_si512(keys + i * 64);
    const __m512i b = _mm512_load_si512(more_keys + i * 64);
#pragma GCC unroll 8
    for (int h = 0; h < heads; ++h) {
      const __m512i pair = _mm512_set1_epi32(query[h]);
      add_pairs(acc[h][0], a, pair);
      add_pairs(acc[h][1], b, pair);
    }
  }
#pragma GCC unroll 8
  for (int h = 0; h < heads; ++h) {
    _mm512_store_ps(scores + h * attention_tile, acc[h][0]);
    _mm512_store_ps(scores + h * attention_tile + 16, acc[h][1]);
  }
}

// sums: 32 values of every head, dim apart; weights: bf16 [8 heads, tile].
FATHOM_SIMD void add_values(const uint16_t* weights, const uint8_t* values, int64_t num_pairs,
                            const float* rescale, int64_t dim, float* sums) {
  __m512 acc[heads][2];
#pragma GCC unroll 8
  for (int h = 0; h < heads; ++h) {
    const __m512 factor = _mm512_set1_ps(rescale[h]);
    acc[h][0] = _mm512_mul_ps(_mm512_load_ps(sums + h * dim), factor);
    acc[h][1] = _mm512_mul_ps(_mm512_load_ps(sums + h * dim + 16), factor);
  }
  for (int64_t i = 0; i < num_pairs; ++i, values += value_row_bytes, weights += 2) {
    const __m512i a = _mm512_load_si512(values);
    const __m512i b = _mm512_load_si512(values + 64);
#pragma GCC unroll 8
    for (int h = 0; h < heads; ++h) {
      int32_t two;
      __builtin_memcpy(&two, weights + h * attention_tile, sizeof(two));
      const __m512i pair = _mm512_set1_epi32(two);
      add_pairs(acc[h][0], a, pair);
      add_pairs(acc[h][1], b, pair);
    }
  }
#pragma GCC unroll 8
  for (int h = 0; h < heads; ++h) {
    _mm512_store_ps(sums + h * dim, acc[h][0]);
    _mm512_store_ps(sums + h * dim + 16, acc[h][1]);
  }
}

void attend(const uint8_t* query, const uint8_t* tile, int64_t num_keys, int64_t dim, uint8_t* state) {
  alignas(64) float scores[heads * attention_tile];
  alignas(64) uint16_t weights[heads * attention_tile];
  const AttentionState sums = place_attention_state(state, heads);
  const int64_t whole = (num_keys + 31) / 32 * 32;
  for (int64_t k = 0; k < whole; k += 32)
    score_keys(reinterpret_cast<const int32_t*>(query), tile + k * dim * 2, dim, scores + k);
  weigh_heads_bf16(scores, heads, num_keys, dim, sums, weights);
  const uint8_t* values = tile + score_keys_bytes(dim);
  for (int64_t i = 0; i < dim; i += 32, values += attention_tile / 2 * value_row_bytes)
    add_values(weights, values, whole / 2, sums.rescale, dim, sums.values + i);
}

void finish(const uint8_t* state, int64_t num_heads, int64_t dim, bf16* out) {
  finish_attention(place_attention_state(state, heads), num_heads, dim, out);
}

}  // namespace

void add_attention_kernels(AttentionKernels& to) {
  to.head_block = heads;
  to.query_bytes = query_bytes;
  to.state_bytes = state_bytes;
  to.tile_bytes = tile_bytes;
  to.start = start;
  to.unpack = unpack_attention_keys;
  to.attend = attend;
  to.finish = finish;
}

}  // namespace fathom::fast::avx512
