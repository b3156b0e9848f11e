// The narrow part of the index scores by AMX: 16 heads times 16 keys in a tile, 64 values a step. Everything
// else is AVX-512's, and so are the bits of every score: the sums are exact integers.
#include "backend/fast/simd/amx_tiles.h"
#include "backend/fast/simd/index_integers.h"
#include "backend/fast/simd/vec.h"

namespace fathom::fast::amx {
namespace {

constexpr int64_t tile_heads = 16;
constexpr int64_t tile_values = 64;

// Tiles 0 and 1: sums of the heads' halves; 2 and 3: the values' halves of the keys; 4 to 7: of the queries.
FATHOM_SIMD void load_queries(const IntegerQuery& q) {
  const auto stride = static_cast<size_t>(q.dim);
  const int8_t* second = q.codes + tile_heads * q.dim;
  _tile_loadd(4, q.codes, stride);
  if (q.dim > tile_values) _tile_loadd(5, q.codes + tile_values, stride);
  if (q.num_narrow > tile_heads) _tile_loadd(6, second, stride);
  if (q.num_narrow > tile_heads && q.dim > tile_values) _tile_loadd(7, second + tile_values, stride);
}

// sums: i32 [num_narrow, 16 keys].
FATHOM_SIMD void multiply(const IntegerQuery& q, const uint8_t* operands, int32_t* sums) {
  const bool two_halves = q.dim > tile_values;
  _tile_loadd(2, operands, 64);
  if (two_halves) _tile_loadd(3, operands + tile_values * 16, 64);
  _tile_zero(0);
  _tile_dpbsud(0, 4, 2);
  if (two_halves) _tile_dpbsud(0, 5, 3);
  _tile_stored(0, sums, 64);
  if (q.num_narrow == tile_heads) return;
  _tile_zero(1);
  _tile_dpbsud(1, 6, 2);
  if (two_halves) _tile_dpbsud(1, 7, 3);
  _tile_stored(1, sums + tile_heads * 16, 64);
}

FATHOM_SIMD __m512 add_heads(const IntegerQuery& q, const int32_t* sums) {
  __m512 score = _mm512_setzero_ps();
  for (int64_t h = 0; h < q.num_narrow; ++h) {
    __m512i dot = _mm512_add_epi32(_mm512_load_si512(sums + h * 16), _mm512_set1_epi32(q.correction[h]));
    dot = _mm512_max_epi32(dot, _mm512_setzero_si512());
    score = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_set1_ps(q.weight[h] * 0x1p-6f), score);
  }
  return score;
}

void score(const uint8_t* query, const uint8_t* keys, int64_t groups, const uint8_t* const* next,
           float* scores) {
  IntegerQuery q;
  __builtin_memcpy(&q, query, sizeof(q));
  const bool fits = (q.dim == tile_values || q.dim == 2 * tile_values) &&
                    (q.num_narrow == tile_heads || q.num_narrow == 2 * tile_heads);
  if (!fits) return avx512::index_score(query, keys, groups, next, scores);
  configure_tiles();
  load_queries(q);
  alignas(64) int32_t sums[2][2 * tile_heads * 16];  // two, so that one group need not wait for the other
  for (int64_t g = 0; g < groups; ++g, keys += integer_keys_bytes(q.dim), scores += 16) {
    const IntegerKeys own = place_keys(keys, q.dim);
    const bool wide = *own.wide != 0;
    if (next != nullptr)
      for (int64_t i = 0; i < 16; ++i) __builtin_prefetch(next[g * 16 + i]);
    if (!wide) {
      multiply(q, own.operands, sums[g % 2]);
      _mm512_storeu_ps(scores, add_heads(q, sums[g % 2]));
    }
    avx512::index_add_blocks(q, own, wide ? 0 : q.num_narrow, scores);
    _mm512_storeu_ps(scores, _mm512_mul_ps(_mm512_loadu_ps(scores), _mm512_load_ps(own.scale)));
  }
  _tile_release();
}

}  // namespace

void add_index_kernels(IndexKernels& to) { to.score = score; }

}  // namespace fathom::fast::amx
