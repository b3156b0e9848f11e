// Quantized rows: the FP8 grid of linear inputs, index queries, and the records of the caches.
#include "backend/fast/simd/blocks.h"
#include "backend/fast/simd/row_kernels.h"

namespace fathom::fast::FATHOM_ISA {
namespace {

void fp8_grid(const bf16* in, int64_t n, bf16* out) {
  for (int64_t i = 0; i < n; i += 32) {
    const Twice<f32x16> grid = fp8_grid_of(load_bf16(in + i), load_bf16(in + i + 16));
    store_bf16_exact(out + i, grid.lo);
    store_bf16_exact(out + i + 16, grid.hi);
  }
}

void swiglu(const bf16* gate, const bf16* up, int64_t n, float limit, float weight, bf16* hidden) {
  const f32x16 top = splat(limit > 0 ? limit : __builtin_inff());
  const f32x16 bottom = splat(0.0f) - top;
  const auto activated = [&](int64_t i) __attribute__((always_inline)) {
    f32x16 u = load_bf16(up + i);
    f32x16 g = load_bf16(gate + i);
    u = select(u < bottom, bottom, select(u > top, top, u));  // NaN stays
    g = select(g > top, top, g);
    return round_bf16(((g * sigmoid(g)) * u) * splat(weight));
  };
  for (int64_t i = 0; i < n; i += 32) {
    const Twice<f32x16> grid = fp8_grid_of(activated(i), activated(i + 16));
    store_bf16_exact(hidden + i, grid.lo);
    store_bf16_exact(hidden + i + 16, grid.hi);
  }
}

void index_fp4_grid(bf16* x, int64_t n) {
  for (int64_t i = 0; i < n; i += 32) {
    const f32x16 a = load_bf16(x + i);
    const f32x16 b = load_bf16(x + i + 16);
    const IndexScale scale = index_scale_of(a, b);
    const f32x16 inverse = splat(scale.inverse);
    const f32x16 scale_of_block = splat(scale.value);
    store_bf16_exact(x + i, to_e2m1(a * inverse).value * scale_of_block);
    store_bf16_exact(x + i + 16, to_e2m1(b * inverse).value * scale_of_block);
  }
}

void pack_window(const bf16* x, int64_t dim, uint8_t* record) {
  for (int64_t i = 0; i < dim; i += 32) {
    const f32x16 a = load_bf16(x + i);
    const f32x16 b = load_bf16(x + i + 16);
    const uint32_t code = e8m0_code(amax_of(a, b, 1e-4f), 1.0f / 448.0f);
    const f32x16 inverse = splat(inverse_of_code(code));
    store_u8(record + i, to_e4m3(a * inverse).code);
    store_u8(record + i + 16, to_e4m3(b * inverse).code);
    record[dim + i / 32] = static_cast<uint8_t>(code);
  }
}

void pack_index(const bf16* x, int64_t dim, uint8_t* record) {
  for (int64_t i = 0; i < dim; i += 32) {
    const Twice<f32x16> pairs = load_pairs(x + i);
    const IndexScale scale = index_scale_of(pairs.lo, pairs.hi);
    const f32x16 inverse = splat(scale.inverse);
    store_u8(record + i / 2, to_e2m1(pairs.lo * inverse).code | to_e2m1(pairs.hi * inverse).code << 4);
    record[dim / 2 + i / 32] = static_cast<uint8_t>(scale.code);
  }
}

// Two blocks of 16 at a time: lanes 0 to 7 of the pairs and lanes 8 to 15. A block with NaN or infinity in it
// has NaN for its largest.
void pack_compressed(const bf16* x, int64_t dim, uint8_t* record) {
  for (int64_t i = 0; i < dim; i += 32) {
    const Twice<f32x16> pairs = load_pairs(x + i);
    alignas(64) float lane[16];
    const f32x16 zero = (pairs.lo - pairs.lo) + (pairs.hi - pairs.hi);  // or NaN
    store(lane, abs(max(abs(pairs.hi), max(abs(pairs.lo), splat(6 * 0x1p-9f))) + zero));
    alignas(64) float amax[16];
    for (int block = 0; block < 2; ++block) {
      float largest = 0;
      for (int j = 8 * block; j < 8 * block + 8; ++j)
        if (lane[j] > largest || lane[j] != lane[j]) largest = lane[j];
      for (int j = 0; j < 8; ++j) amax[8 * block + j] = largest;
    }
    const Quantized scales = to_e4m3(load(amax) / splat(6.0f));
    alignas(64) uint8_t scale_codes[16];
    store_u8(scale_codes, scales.code);
    record[dim / 2 + i / 16] = scale_codes[0];
    record[dim / 2 + i / 16 + 1] = scale_codes[8];
    store_u8(record + i / 2,
             to_e2m1(pairs.lo / scales.value).code | to_e2m1(pairs.hi / scales.value).code << 4);
  }
}

}  // namespace

void add_quantize_kernels(RowKernels& to) {
  to.fp8_grid = fp8_grid;
  to.swiglu = swiglu;
  to.index_fp4_grid = index_fp4_grid;
  to.pack_window = pack_window;
  to.pack_index = pack_index;
  to.pack_compressed = pack_compressed;
}

}  // namespace fathom::fast::FATHOM_ISA
