// Attention in f32, for processors without dot products of bf16: 4 heads times 16 keys, or values.
#include "backend/fast/simd/attention_softmax.h"

namespace fathom::fast::FATHOM_ISA {
namespace {

constexpr int heads = 4;

// Queries: f32 [4, dim]. A tile: f32 [8 groups, dim, 16 keys] for scores, f32 [128, dim] for the value
// product.
int64_t query_bytes(int64_t dim) { return heads * dim * 4; }
int64_t state_bytes(int64_t dim) { return attention_state_bytes(heads, dim); }
int64_t tile_bytes(int64_t dim) { return 2 * attention_tile * dim * 4; }

void start(const bf16* q, const float* sinks, int64_t num_heads, int64_t dim, uint8_t* query,
           uint8_t* state) {
  auto* out = reinterpret_cast<float*>(query);
  for (int64_t i = 0; i < heads * dim; i += 16)
    store(out + i, i / dim < num_heads ? load_bf16(q + i) : splat(0.0f));
  start_attention(sinks, num_heads, heads, dim, place_attention_state(state, heads));
}

FATHOM_SIMD float float_of(uint32_t bits) {
  float out;
  __builtin_memcpy(&out, &bits, sizeof(out));
  return out;
}

FATHOM_SIMD float e8m0(uint8_t code) {
  return float_of(code == 0xFF ? 0x7FC00000u : code == 0 ? 0x400000u : static_cast<uint32_t>(code) << 23);
}

FATHOM_SIMD float e4m3(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  const uint32_t exponent = code >> 3 & 15;
  const uint32_t mantissa = code & 7;
  if ((code & 0x7F) == 0x7F) return float_of(0x7FC00000u);
  if (exponent != 0) return float_of(sign | (exponent + 120) << 23 | mantissa << 20);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
  return sign != 0 ? -magnitude : magnitude;
}

FATHOM_SIMD void unpack_values(const AttentionKey& key, const float* e4m3_values, int64_t dim, float* out) {
  constexpr float e2m1_values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  if (key.record == nullptr) {
    for (int64_t i = 0; i < dim; ++i) out[i] = 0;
  } else if (key.compressed) {
    for (int64_t b = 0; b < dim / 16; ++b) {
      const float scale = e4m3_values[key.record[dim / 2 + b]];
      for (int64_t i = b * 8; i < (b + 1) * 8; ++i) {
        out[2 * i] = e2m1_values[key.record[i] & 15] * scale;
        out[2 * i + 1] = e2m1_values[key.record[i] >> 4] * scale;
      }
    }
  } else {
    for (int64_t b = 0; b < dim / 32; ++b) {
      const float scale = e8m0(key.record[dim + b]);
      for (int64_t i = b * 32; i < (b + 1) * 32; ++i) out[i] = e4m3_values[key.record[i]] * scale;
    }
  }
}

void unpack(const AttentionKey* keys, int64_t group, int64_t dim, uint8_t* tile) {
  float e4m3_values[256];
  for (int i = 0; i < 256; ++i) e4m3_values[i] = e4m3(static_cast<uint8_t>(i));
  float* scores = reinterpret_cast<float*>(tile) + group * attention_group * dim;
  float* values = reinterpret_cast<float*>(tile) + (attention_tile + group * attention_group) * dim;
  for (int64_t k = 0; k < attention_group; ++k) {
    unpack_values(keys[k], e4m3_values, dim, values + k * dim);
    for (int64_t i = 0; i < dim; ++i) scores[i * attention_group + k] = values[k * dim + i];
  }
}

void score_group(const float* query, const float* keys, int64_t dim, float* scores) {
  f32x16 acc[heads];
#pragma GCC unroll 4
  for (int h = 0; h < heads; ++h) acc[h] = splat(0.0f);
  for (int64_t i = 0; i < dim; ++i) {
    const f32x16 key = load(keys + i * attention_group);
#pragma GCC unroll 4
    for (int h = 0; h < heads; ++h) acc[h] += splat(query[h * dim + i]) * key;
  }
#pragma GCC unroll 4
  for (int h = 0; h < heads; ++h) store(scores + h * attention_tile, acc[h]);
}

// sums: 16 values of every head, dim apart; weights: f32 [4, tile].
void add_values(const float* weights, const float* values, int64_t num_keys, const float* rescale,
                int64_t dim, float* sums) {
  f32x16 acc[heads];
#pragma GCC unroll 4
  for (int h = 0; h < heads; ++h) acc[h] = load(sums + h * dim) * splat(rescale[h]);
  for (int64_t k = 0; k < num_keys; ++k, values += dim) {
    const f32x16 value = load(values);
#pragma GCC unroll 4
    for (int h = 0; h < heads; ++h) acc[h] += splat(weights[h * attention_tile + k]) * value;
  }
#pragma GCC unroll 4
  for (int h = 0; h < heads; ++h) store(sums + h * dim, acc[h]);
}

void attend(const uint8_t* query, const uint8_t* tile, int64_t num_keys, int64_t dim, uint8_t* state) {
  alignas(64) float scores[heads * attention_tile];
  const AttentionState sums = place_attention_state(state, heads);
  const auto* q = reinterpret_cast<const float*>(query);
  const auto* keys = reinterpret_cast<const float*>(tile);
  for (int64_t k = 0; k < num_keys; k += attention_group) score_group(q, keys + k * dim, dim, scores + k);
  weigh_heads(
      scores, heads, num_keys, dim, sums, [](f32x16 w) __attribute__((always_inline)) { return w; });
  const float* values = keys + attention_tile * dim;
  for (int64_t i = 0; i < dim; i += 16)
    add_values(scores, values + i, num_keys, sums.rescale, dim, sums.values + i);
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
  to.unpack = unpack;
  to.attend = attend;
  to.finish = finish;
}

}  // namespace fathom::fast::FATHOM_ISA
