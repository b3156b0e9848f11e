// The index scores in f32, for processors without integer dot products.
#include "backend/fast/simd/index_kernels.h"
#include "backend/fast/simd/vec.h"

namespace fathom::fast::FATHOM_ISA {
namespace {

struct Query {
  int64_t heads;
  int64_t dim;
  const float* weights;  // [heads]
  const float* values;   // [heads, dim]
};

constexpr int64_t header_bytes = 64;

int64_t query_bytes(int64_t heads, int64_t dim) {
  return header_bytes + ((heads + heads * dim) * 4 + 63) / 64 * 64;
}

int64_t group_bytes(int64_t dim) { return dim * index_lanes * 4; }

bool prepare(const uint16_t* queries, const float* weights, int64_t heads, int64_t dim, uint8_t* query) {
  auto* own_weights = reinterpret_cast<float*>(query + header_bytes);
  float* values = own_weights + heads;
  const Query q{heads, dim, own_weights, values};
  __builtin_memcpy(query, &q, sizeof(q));
  __builtin_memcpy(own_weights, weights, static_cast<size_t>(heads) * sizeof(float));
  for (int64_t i = 0; i < heads * dim; i += 16) store(values + i, float_of_bits(load_u16(queries + i) << 16));
  return true;
}

FATHOM_SIMD float scale_of(uint8_t code) {
  const uint32_t bits = code == 0xFF ? 0x7FC00000u
                        : code == 0  ? 0x400000u
                                     : static_cast<uint32_t>(code) << 23;
  float out;
  __builtin_memcpy(&out, &bits, sizeof(out));
  return out;
}

void unpack(const uint8_t* const* records, int64_t groups, int64_t dim, uint8_t* keys, uint16_t* odd) {
  constexpr float values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  for (int64_t g = 0; g < groups; ++g, keys += group_bytes(dim)) {
    odd[g] = 0;
    auto* out = reinterpret_cast<float*>(keys);
    for (int64_t lane = 0; lane < index_lanes; ++lane) {
      const uint8_t* record = records[g * index_lanes + lane];
      for (int64_t i = 0; i < dim / 2; ++i) {
        const float scale = scale_of(record[dim / 2 + i / (index_block / 2)]);
        out[2 * i * index_lanes + lane] = values[record[i] & 15] * scale;
        out[(2 * i + 1) * index_lanes + lane] = values[record[i] >> 4] * scale;
      }
    }
  }
}

// score += weight * relu(dot) for `count` heads.
template <int count>
FATHOM_SIMD void add_heads(const Query& q, int64_t head, const float* keys, f32x16& score) {
  f32x16 dots[count];
  for (f32x16& dot : dots) dot = splat(0.0f);
  const float* values = q.values + head * q.dim;
  for (int64_t i = 0; i < q.dim; ++i) {
    const f32x16 key = load(keys + i * index_lanes);
#pragma GCC unroll 4
    for (int h = 0; h < count; ++h) dots[h] += splat(values[h * q.dim + i]) * key;
  }
#pragma GCC unroll 4
  for (int h = 0; h < count; ++h)  // NaN passes the comparison
    score += select(dots[h] < splat(0.0f), splat(0.0f), dots[h]) * splat(q.weights[head + h]);
}

void score(const uint8_t* query, const uint8_t* keys, int64_t groups, const uint8_t* const*, float* scores) {
  Query q;
  __builtin_memcpy(&q, query, sizeof(q));
  for (int64_t g = 0; g < groups; ++g, keys += group_bytes(q.dim)) {
    const auto* values = reinterpret_cast<const float*>(keys);
    f32x16 sum = splat(0.0f);
    int64_t h = 0;
    for (; h + 4 <= q.heads; h += 4) add_heads<4>(q, h, values, sum);
    for (; h < q.heads; ++h) add_heads<1>(q, h, values, sum);
    store(scores + g * index_lanes, sum);
  }
}

}  // namespace

void add_index_kernels(IndexKernels& to) {
  to.query_bytes = query_bytes;
  to.group_bytes = group_bytes;
  to.prepare = prepare;
  to.unpack = unpack;
  to.score = score;
}

}  // namespace fathom::fast::FATHOM_ISA
