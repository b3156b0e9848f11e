// The packed cache records and their sizes, defined once (spec 7, "What a sequence owns").
//
// A record is its codes followed by its scales. Packing quantizes, unpacking gives back the exact values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/quantize.h"

namespace fathom {

struct RecordLayout {
  int64_t code_bytes = 0;
  int64_t scale_bytes = 0;
  constexpr int64_t bytes() const { return code_bytes + scale_bytes; }
};

/// Window KV: E4M3 codes with an E8M0 scale for every 32 values.
constexpr RecordLayout window_record(int64_t head_dim) { return {head_dim, head_dim / fp8_block}; }
/// Compressed KV: packed E2M1 codes with an E4M3 scale for every 16 values.
constexpr RecordLayout compressed_record(int64_t head_dim) { return {head_dim / 2, head_dim / kv_fp4_block}; }
/// Index key: packed E2M1 codes with an E8M0 scale for every 32 values.
constexpr RecordLayout index_record(int64_t index_dim) {
  return {index_dim / 2, index_dim / index_fp4_block};
}

static_assert(window_record(512).bytes() == 528);
static_assert(compressed_record(512).bytes() == 288);
static_assert(index_record(128).bytes() == 68);

// pack_*: `values` are `dim` bf16 values held as float (post rope); `record` has *_record(dim).bytes() bytes.
// unpack_*: the exact dequantized values.

inline void pack_window(const float* values, int64_t dim, std::byte* record) {
  auto* codes = reinterpret_cast<uint8_t*>(record);
  uint8_t* scales = codes + dim;
  for (int64_t b = 0; b < dim / fp8_block; ++b)
    scales[b] = quantize_fp8_block(values + b * fp8_block, fp8_block, codes + b * fp8_block);
}

inline void unpack_window(const std::byte* record, int64_t dim, float* values) {
  const auto* codes = reinterpret_cast<const uint8_t*>(record);
  const uint8_t* scales = codes + dim;
  for (int64_t b = 0; b < dim / fp8_block; ++b) {
    const float scale = e8m0_to_float(scales[b]);
    for (int64_t i = b * fp8_block; i < (b + 1) * fp8_block; ++i) values[i] = e4m3_table[codes[i]] * scale;
  }
}

namespace internal {

// FP4 records: packed codes, then a scale for each block. `quantize` writes a block's codes and gives its
// scale's code; `scale_of` is that code's value.
template <int64_t block, class Quantize>
void pack_fp4(const float* values, int64_t dim, std::byte* record, const Quantize& quantize) {
  auto* packed = reinterpret_cast<uint8_t*>(record);
  uint8_t* scales = packed + dim / 2;
  uint8_t codes[block];
  for (int64_t b = 0; b < dim / block; ++b) {
    scales[b] = quantize(values + b * block, block, codes);
    for (int64_t i = 0; i < block; i += 2) packed[(b * block + i) / 2] = pack_e2m1(codes[i], codes[i + 1]);
  }
}

template <int64_t block, class ScaleOf>
void unpack_fp4(const std::byte* record, int64_t dim, float* values, const ScaleOf& scale_of) {
  const auto* packed = reinterpret_cast<const uint8_t*>(record);
  const uint8_t* scales = packed + dim / 2;
  for (int64_t b = 0; b < dim / block; ++b) {
    const float scale = scale_of(scales[b]);
    for (int64_t i = b * block; i < (b + 1) * block; i += 2) {
      values[i] = e2m1_table[packed[i / 2] & 15u] * scale;
      values[i + 1] = e2m1_table[packed[i / 2] >> 4] * scale;
    }
  }
}

}  // namespace internal

inline void pack_compressed(const float* values, int64_t dim, std::byte* record) {
  internal::pack_fp4<kv_fp4_block>(values, dim, record, quantize_fp4_block_e4m3);
}
inline void unpack_compressed(const std::byte* record, int64_t dim, float* values) {
  internal::unpack_fp4<kv_fp4_block>(record, dim, values, [](uint8_t code) { return e4m3_table[code]; });
}

inline void pack_index(const float* values, int64_t dim, std::byte* record) {
  internal::pack_fp4<index_fp4_block>(values, dim, record, quantize_fp4_block_e8m0);
}
inline void unpack_index(const std::byte* record, int64_t dim, float* values) {
  internal::unpack_fp4<index_fp4_block>(record, dim, values, e8m0_to_float);
}

}  // namespace fathom
