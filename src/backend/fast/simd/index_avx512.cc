// The index scores by VPDPBUSD (see index_integers.h): 8 heads times 2 groups of keys in registers.
#include <immintrin.h>

#include "backend/fast/simd/index_integers.h"
#include "backend/fast/simd/transpose_avx512.h"
#include "backend/fast/simd/vec.h"

namespace fathom::fast::avx512 {
namespace {

constexpr int head_block = 8;
constexpr int offset = 96;          // makes every value of a key unsigned
constexpr int largest_scale = 200;  // of a key, as E8M0 code: sums of larger ones may pass f32

// 2^e for -126 <= e <= 127.
FATHOM_SIMD float power(int e) {
  const uint32_t bits = static_cast<uint32_t>(e + 127) << 23;
  float out;
  __builtin_memcpy(&out, &bits, sizeof out);
  return out;
}

FATHOM_SIMD __m512 load_query(const uint16_t* x) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x))), 16));
}

struct Head {
  int exponents[index_max_dim / index_block];  // of the blocks' scales
  int largest = -1000;
  bool narrow = true;
};

constexpr int no_exponent = -1000;  // of a block of zeros

// The exponent e that gives the block's values as integers within -12..12 times 2^e. False: there is none.
FATHOM_SIMD bool block_exponent(const uint16_t* x, int& exponent) {
  const __m512i both = _mm512_and_si512(_mm512_loadu_si512(x), _mm512_set1_epi16(0x7FFF));
  const __m512i wide =
      _mm512_max_epu32(_mm512_and_si512(both, _mm512_set1_epi32(0xFFFF)), _mm512_srli_epi32(both, 16));
  const int amax = static_cast<int>(_mm512_reduce_max_epu32(wide));
  exponent = no_exponent;
  if (amax == 0) return true;
  exponent = (amax >> 7) - 127 - 3;
  if (exponent < -80 || exponent > 60) return false;
  const __m512 scale = _mm512_set1_ps(power(-exponent));
  for (int half = 0; half < 2; ++half) {
    const __m512 v = _mm512_mul_ps(load_query(x + 16 * half), scale);
    const __m512i i = _mm512_cvttps_epi32(v);
    if (_mm512_cmp_ps_mask(_mm512_cvtepi32_ps(i), v, _CMP_NEQ_UQ) != 0) return false;
    if (_mm512_cmpgt_epi32_mask(_mm512_abs_epi32(i), _mm512_set1_epi32(12)) != 0) return false;
  }
  return true;
}

FATHOM_SIMD bool head_exponents(const uint16_t* x, int64_t blocks, Head& head) {
  int smallest = 1000;
  for (int64_t b = 0; b < blocks; ++b) {
    int& e = head.exponents[b];
    if (!block_exponent(x + b * index_block, e)) return false;
    if (e == no_exponent) continue;
    if (e > head.largest) head.largest = e;
    if (e < smallest) smallest = e;
  }
  if (head.largest == no_exponent) head.largest = smallest = 0;
  head.narrow = head.largest - smallest <= 3;
  return true;
}

// A block's integers in the order of the operands: of 8 dims the even ones, then the odd ones.
FATHOM_SIMD int store_codes(const uint16_t* x, float factor, int8_t* out) {
  const __m512 scale = _mm512_set1_ps(factor);
  const __m512i a = _mm512_cvttps_epi32(_mm512_mul_ps(load_query(x), scale));
  const __m512i b = _mm512_cvttps_epi32(_mm512_mul_ps(load_query(x + 16), scale));
  const __m256i bytes = _mm256_set_m128i(_mm512_cvtepi32_epi8(b), _mm512_cvtepi32_epi8(a));
  const __m256i order = _mm256_set_epi8(15, 13, 11, 9, 14, 12, 10, 8, 7, 5, 3, 1, 6, 4, 2, 0, 15, 13, 11, 9,
                                        14, 12, 10, 8, 7, 5, 3, 1, 6, 4, 2, 0);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_shuffle_epi8(bytes, order));
  return _mm512_reduce_add_epi32(_mm512_add_epi32(a, b));
}

FATHOM_SIMD void store_head(const uint16_t* x, float weight, const Head& head, int64_t at, int64_t blocks,
                            IntegerQuery& out) {
  int total = 0;
  for (int64_t b = 0; b < blocks; ++b) {
    // Narrow: integers of one scale, an eighth of the largest one.
    const int e = head.narrow ? head.largest - 3 : head.exponents[b];
    const bool zeros = head.exponents[b] == no_exponent;
    const int sum = store_codes(x + b * index_block, zeros ? 0.0f : power(-e),
                                out.codes + at * out.dim + b * index_block);
    out.block_correction[at * blocks + b] = -offset * sum;
    const int relative = zeros ? 0 : e - head.largest;
    out.relative[at * blocks + b] = relative < -126 ? 0.0f : power(relative);
    total += sum;
  }
  out.correction[at] = -offset * total;
  // Keys are integers of half their scale.
  out.weight[at] = weight * power(head.largest - 1);
}

FATHOM_SIMD int64_t pad_heads(int64_t at, int64_t end, int64_t blocks, IntegerQuery& out) {
  for (; at < end; ++at) {
    for (int64_t i = 0; i < out.dim; ++i) out.codes[at * out.dim + i] = 0;
    for (int64_t b = 0; b < blocks; ++b) out.block_correction[at * blocks + b] = 0;
    for (int64_t b = 0; b < blocks; ++b) out.relative[at * blocks + b] = 0;
    out.correction[at] = 0;
    out.weight[at] = 0;
  }
  return at;
}

// The codes as score_narrow reads them: of 8 heads four codes each, then the next four.
FATHOM_SIMD void pack_codes(int64_t heads, IntegerQuery& q) {
  int32_t* out = q.packed;
  for (int64_t first = 0; first < heads; first += head_block)
    for (int64_t i = 0; i < q.dim; i += 4)
      for (int64_t h = first; h < first + head_block; ++h, ++out)
        __builtin_memcpy(out, q.codes + h * q.dim + i, 4);
}

int64_t heads_bound(int64_t heads) { return heads + 16 + head_block; }

int64_t query_bytes(int64_t heads, int64_t dim) {
  const int64_t bound = heads_bound(heads);
  const int64_t bytes = integer_query_header + bound * (2 * dim + 8 + dim / index_block * 8);
  return (bytes + 63) / 64 * 64;
}

FATHOM_SIMD IntegerQuery place_query(uint8_t* at, int64_t heads, int64_t dim) {
  const int64_t bound = heads_bound(heads);
  at += integer_query_header;
  const auto take = [&](int64_t bytes) { return (at += bytes) - bytes; };
  IntegerQuery q{};
  q.dim = dim;
  q.codes = reinterpret_cast<int8_t*>(take(bound * dim));
  q.packed = reinterpret_cast<int32_t*>(take(bound * dim));
  q.correction = reinterpret_cast<int32_t*>(take(bound * 4));
  q.block_correction = reinterpret_cast<int32_t*>(take(bound * dim / index_block * 4));
  q.relative = reinterpret_cast<float*>(take(bound * dim / index_block * 4));
  q.weight = reinterpret_cast<float*>(take(bound * 4));
  return q;
}

bool prepare(const uint16_t* queries, const float* weights, int64_t heads, int64_t dim, uint8_t* query) {
  const int64_t blocks = dim / index_block;
  IntegerQuery q = place_query(query, heads, dim);
  int64_t at = 0;
  for (int pass = 0; pass < 2; ++pass) {
    const int64_t first = at;
    for (int64_t h = 0; h < heads; ++h) {
      Head head;
      if (!head_exponents(queries + h * dim, blocks, head)) return false;
      if (head.narrow == (pass == 0)) store_head(queries + h * dim, weights[h], head, at++, blocks, q);
    }
    const int64_t whole = pass == 0 ? 16 : head_block;  // narrow ones may go through AMX tiles
    at = pad_heads(at, first + (at - first + whole - 1) / whole * whole, blocks, q);
    (pass == 0 ? q.num_narrow : q.num_wide) = at - first;
  }
  pack_codes(at, q);
  __builtin_memcpy(query, &q, sizeof(q));
  return true;
}

int64_t group_bytes(int64_t dim) { return integer_keys_bytes(dim); }

}  // namespace

namespace {

// The 16 integers of E2M1 codes times 8, 4, 2 and 1, plus the offset.
FATHOM_SIMD __m512i value_table() {
  alignas(64) uint8_t table[64];
  constexpr int values[8] = {0, 1, 2, 3, 4, 6, 8, 12};
  for (int i = 0; i < 64; ++i) {
    const int magnitude = values[i % 8] * (8 >> (i / 16));
    table[i] = static_cast<uint8_t>(i % 16 < 8 ? offset + magnitude : offset - magnitude);
  }
  return _mm512_load_si512(table);
}

FATHOM_SIMD __m512i load_lanes(const uint8_t* const* records, int64_t at) {
  const auto load = [&](int i) __attribute__((always_inline)) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(records[i] + at));
  };
  __m512i x = _mm512_castsi128_si512(load(0));
  x = _mm512_inserti32x4(x, load(4), 1);
  x = _mm512_inserti32x4(x, load(8), 2);
  return _mm512_inserti32x4(x, load(12), 3);
}

// One block of 16 keys: dwords of 8 codes each, keys in lanes; then a byte for each code.
FATHOM_SIMD void unpack_block(const uint8_t* const* records, int64_t at, __m512i table, __m512i row,
                              uint8_t* out) {
  const __m512i keys[4] = {load_lanes(records, at), load_lanes(records + 1, at), load_lanes(records + 2, at),
                           load_lanes(records + 3, at)};
  __m512i packed[4];
  transpose_dwords(keys, packed);
  const __m512i nibble = _mm512_set1_epi8(15);
  constexpr int and_or = 0xEA;  // (x & nibble) | row
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i low = _mm512_ternarylogic_epi32(packed[i], nibble, row, and_or);
    const __m512i high = _mm512_ternarylogic_epi32(_mm512_srli_epi32(packed[i], 4), nibble, row, and_or);
    _mm512_store_si512(out + i * 128, _mm512_permutexvar_epi8(low, table));
    _mm512_store_si512(out + i * 128 + 64, _mm512_permutexvar_epi8(high, table));
  }
}

// The E8M0 codes of 16 keys, block by block.
FATHOM_SIMD void load_scales(const uint8_t* const* records, int64_t blocks, int64_t at, __m512i* scales) {
  if (blocks == 4) {
    alignas(64) uint32_t four[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) __builtin_memcpy(&four[i], records[i] + at, 4);
    const __m512i x = _mm512_load_si512(four);
    const __m512i byte = _mm512_set1_epi32(255);
    scales[0] = _mm512_and_si512(x, byte);
    scales[1] = _mm512_and_si512(_mm512_srli_epi32(x, 8), byte);
    scales[2] = _mm512_and_si512(_mm512_srli_epi32(x, 16), byte);
    scales[3] = _mm512_srli_epi32(x, 24);
    return;
  }
  for (int64_t b = 0; b < blocks; ++b) {
    alignas(64) uint32_t one[16];
    for (int i = 0; i < 16; ++i) one[i] = records[i][at + b];
    scales[b] = _mm512_load_si512(one);
  }
}

FATHOM_SIMD uint16_t unpack_group(const uint8_t* const* records, int64_t dim, __m512i table,
                                  const IntegerKeys& out) {
  const int64_t blocks = dim / index_block;
  __m512i scales[index_max_dim / index_block];
  load_scales(records, blocks, dim / 2, scales);
  __m512i largest = scales[0];
  __m512i smallest = scales[0];
  for (int64_t b = 1; b < blocks; ++b) {
    largest = _mm512_max_epi32(largest, scales[b]);
    smallest = _mm512_min_epi32(smallest, scales[b]);
  }
  const bool wide = _mm512_cmpgt_epi32_mask(_mm512_sub_epi32(largest, smallest), _mm512_set1_epi32(3)) != 0;
  *out.wide = wide ? 1 : 0;
  _mm512_store_ps(out.scale, _mm512_castsi512_ps(_mm512_slli_epi32(largest, 23)));
  const __m512i first_byte = _mm512_set4_epi32(0x0C0C0C0C, 0x08080808, 0x04040404, 0);
  for (int64_t b = 0; b < blocks; ++b) {
    const __m512i below = _mm512_sub_epi32(largest, scales[b]);  // as a power of two
    __m512i row = _mm512_slli_epi32(_mm512_shuffle_epi8(below, first_byte), 4);
    __m512i relative = _mm512_set1_epi32(127 - 3);
    if (wide) {
      row = _mm512_set1_epi8(3 << 4);
      relative = _mm512_max_epi32(_mm512_sub_epi32(_mm512_set1_epi32(127), below), _mm512_setzero_si512());
    }
    _mm512_store_ps(out.relative + b * 16, _mm512_castsi512_ps(_mm512_slli_epi32(relative, 23)));
    unpack_block(records, b * 16, table, row, out.operands + b * index_block * 16);
  }
  return _mm512_cmpgt_epi32_mask(largest, _mm512_set1_epi32(largest_scale));
}

void unpack(const uint8_t* const* records, int64_t groups, int64_t dim, uint8_t* keys, uint16_t* odd) {
  const __m512i table = value_table();
  for (int64_t g = 0; g < groups; ++g)
    odd[g] = unpack_group(records + g * 16, dim, table, place_keys(keys + g * group_bytes(dim), dim));
}

// acc += four products in each lane. The intrinsic makes g++ 12 copy every sum twice a step, at a third of
// the speed.
FATHOM_SIMD void add_dots(__m512i& acc, __m512i keys, __m512i codes) {
  asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(keys), "v"(codes));
}

// scores[g] += weight * relu(dot) for 8 heads and some groups, over all blocks at once.
template <int num_groups>
FATHOM_SIMD void score_narrow(const IntegerQuery& q, int64_t head, const uint8_t* keys, __m512* scores) {
  const int64_t steps = q.dim / 4;
  const int64_t stride = group_bytes(q.dim);
  __m512i acc[head_block][num_groups];
#pragma GCC unroll 8
  for (int h = 0; h < head_block; ++h)
#pragma GCC unroll 4
    for (int g = 0; g < num_groups; ++g) acc[h][g] = _mm512_set1_epi32(q.correction[head + h]);
  const int32_t* four = q.packed + head * steps;
  for (int64_t i = 0; i < steps; ++i, four += head_block) {
    __m512i four_values[num_groups];
#pragma GCC unroll 4
    for (int g = 0; g < num_groups; ++g) four_values[g] = _mm512_load_si512(keys + g * stride + i * 64);
#pragma GCC unroll 8
    for (int h = 0; h < head_block; ++h) {
      const __m512i codes = _mm512_set1_epi32(four[h]);
#pragma GCC unroll 4
      for (int g = 0; g < num_groups; ++g) add_dots(acc[h][g], four_values[g], codes);
    }
  }
#pragma GCC unroll 8
  for (int h = 0; h < head_block; ++h) {
    // Both sides are integers of an eighth of their scales.
    const __m512 weight = _mm512_set1_ps(q.weight[head + h] * 0x1p-6f);
#pragma GCC unroll 4
    for (int g = 0; g < num_groups; ++g) {
      const __m512 dot = _mm512_cvtepi32_ps(_mm512_max_epi32(acc[h][g], _mm512_setzero_si512()));
      scores[g] = _mm512_fmadd_ps(dot, weight, scores[g]);
    }
  }
}

// The same for one group, block by block.
FATHOM_SIMD void score_blocks(const IntegerQuery& q, int64_t head, const IntegerKeys& keys, __m512& score) {
  const int64_t blocks = q.dim / index_block;
  const int32_t* four = q.packed + head * (q.dim / 4);
  __m512 dots[head_block];
#pragma GCC unroll 8
  for (int h = 0; h < head_block; ++h) dots[h] = _mm512_setzero_ps();
  for (int64_t b = 0; b < blocks; ++b) {
    __m512i acc[head_block];
#pragma GCC unroll 8
    for (int h = 0; h < head_block; ++h)
      acc[h] = _mm512_set1_epi32(q.block_correction[(head + h) * blocks + b]);
    for (int64_t i = 0; i < index_block / 4; ++i, four += head_block) {
      const __m512i four_values = _mm512_load_si512(keys.operands + (b * (index_block / 4) + i) * 64);
#pragma GCC unroll 8
      for (int h = 0; h < head_block; ++h) add_dots(acc[h], four_values, _mm512_set1_epi32(four[h]));
    }
    const __m512 key_scale = _mm512_load_ps(keys.relative + b * 16);
#pragma GCC unroll 8
    for (int h = 0; h < head_block; ++h) {
      const __m512 scale = _mm512_mul_ps(key_scale, _mm512_set1_ps(q.relative[(head + h) * blocks + b]));
      dots[h] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(acc[h]), scale, dots[h]);
    }
  }
#pragma GCC unroll 8
  for (int h = 0; h < head_block; ++h)
    score = _mm512_fmadd_ps(_mm512_max_ps(dots[h], _mm512_setzero_ps()), _mm512_set1_ps(q.weight[head + h]),
                            score);
}

// A part of the records that are unpacked next.
template <int count>
FATHOM_SIMD void prefetch(const uint8_t* const* records) {
#pragma GCC unroll 16
  for (int i = 0; i < count; ++i) __builtin_prefetch(records[i]);
}

template <int num_groups>
FATHOM_SIMD void score_groups(const IntegerQuery& q, const uint8_t* keys, const uint8_t* const* next,
                              float* scores) {
  constexpr int parts = 4;
  __m512 sums[num_groups];
#pragma GCC unroll 4
  for (int g = 0; g < num_groups; ++g) sums[g] = _mm512_setzero_ps();
  for (int64_t h = 0; h < q.num_narrow; h += head_block) {
    if (next != nullptr && h < parts * head_block)
      prefetch<num_groups * 16 / parts>(next + h / head_block * (num_groups * 16 / parts));
    score_narrow<num_groups>(q, h, keys, sums);
  }
#pragma GCC unroll 4
  for (int g = 0; g < num_groups; ++g) _mm512_storeu_ps(scores + g * 16, sums[g]);
}

}  // namespace

void index_score(const uint8_t* query, const uint8_t* keys, int64_t groups, const uint8_t* const* next,
                 float* scores) {
  IntegerQuery q;
  __builtin_memcpy(&q, query, sizeof(q));
  const int64_t stride = group_bytes(q.dim);
  const auto group = [&](int64_t g) { return place_keys(keys + g * stride, q.dim); };
  for (int64_t g = 0; g < groups;) {
    const bool two = groups - g >= 2 && *group(g).wide == 0 && *group(g + 1).wide == 0;
    const uint8_t* const* ahead = next == nullptr ? nullptr : next + g * 16;
    if (two)
      score_groups<2>(q, keys + g * stride, ahead, scores + g * 16);
    else if (*group(g).wide == 0)
      score_groups<1>(q, keys + g * stride, ahead, scores + g * 16);
    for (const int64_t end = g + (two ? 2 : 1); g < end; ++g) {
      const IntegerKeys own = group(g);
      float* at = scores + g * 16;
      index_add_blocks(q, own, *own.wide != 0 ? 0 : q.num_narrow, at);
      _mm512_storeu_ps(at, _mm512_mul_ps(_mm512_loadu_ps(at), _mm512_load_ps(own.scale)));
    }
  }
}

void index_add_blocks(const IntegerQuery& q, const IntegerKeys& keys, int64_t first_head, float* scores) {
  if (first_head == q.num_narrow + q.num_wide) return;
  __m512 score = first_head == 0 ? _mm512_setzero_ps() : _mm512_loadu_ps(scores);
  for (int64_t h = first_head; h < q.num_narrow + q.num_wide; h += head_block)
    score_blocks(q, h, keys, score);
  _mm512_storeu_ps(scores, score);
}

void add_index_kernels(IndexKernels& to) {
  to.query_bytes = query_bytes;
  to.group_bytes = group_bytes;
  to.prepare = prepare;
  to.unpack = unpack;
  to.score = index_score;
}

}  // namespace fathom::fast::avx512
