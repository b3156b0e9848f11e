// Hyper-connections: the products with the mixing matrix, the coefficients, collapse and expand (spec 1).
#include "backend/fast/simd/row_kernels.h"
#include "backend/fast/simd/row_sums.h"

namespace fathom::fast::FATHOM_ISA {
namespace {

// R rows by M rows of the matrix. Every product has one accumulator, so that its order does not depend on the
// tile it is computed in.
template <int R, int M>
FATHOM_SIMD void mix_tile(const bf16* x, int64_t x_stride, const float* w, int64_t w_stride, int64_t n,
                          float* out, int64_t out_stride) {
  f32x16 acc[R][M];
  for (int r = 0; r < R; ++r)
    for (int m = 0; m < M; ++m) acc[r][m] = splat(0.0f);
  for_lanes(
      n, FATHOM_LANES {
        f32x16 rows[R];
        for (int r = 0; r < R; ++r) rows[r] = load_bf16(x + r * x_stride + i, lanes);
        for (int m = 0; m < M; ++m) {
          const f32x16 v = in_register(load(w + m * w_stride + i, lanes));
          for (int r = 0; r < R; ++r) acc[r][m] = acc[r][m] + rows[r] * v;
        }
      });
  for (int r = 0; r < R; ++r)
    for (int m = 0; m < M; ++m) out[r * out_stride + m] = sum(acc[r][m]);
}

template <int R, int M>
FATHOM_SIMD void mix_rows(const MixChunk& c, const bf16* x, float* out) {
  int64_t m = 0;
  for (; m + M <= c.mixes; m += M)
    mix_tile<R, M>(x, c.stride, c.fn + m * c.stride, c.stride, c.n, out + m, c.mixes + 1);
  for (; m < c.mixes; ++m)
    mix_tile<R, 1>(x, c.stride, c.fn + m * c.stride, c.stride, c.n, out + m, c.mixes + 1);
}

void mix_chunk(const MixChunk& c, const bf16* x, int64_t rows, float* out) {
  // As many accumulators as hide the latency of the sums and fit into the registers.
  constexpr int row_tile = FATHOM_NATIVE_BYTES == 64 ? 4 : FATHOM_NATIVE_BYTES == 32 ? 2 : 1;
  constexpr int mix_tile_of_rows = FATHOM_NATIVE_BYTES == 64 ? 6 : 2;
  constexpr int mix_tile_of_one = FATHOM_NATIVE_BYTES == 64 ? 8 : FATHOM_NATIVE_BYTES == 32 ? 4 : 2;
  int64_t r = 0;
  for (; r + row_tile <= rows; r += row_tile)
    mix_rows<row_tile, mix_tile_of_rows>(c, x + r * c.stride, out + r * (c.mixes + 1));
  for (; r < rows; ++r) mix_rows<1, mix_tile_of_one>(c, x + r * c.stride, out + r * (c.mixes + 1));
  for (r = 0; r < rows; ++r) {
    const bf16* row = x + r * c.stride;
    out[r * (c.mixes + 1) + c.mixes] = sum(sum_lanes(
        c.n, FATHOM_LANES {
          const f32x16 v = load_bf16(row + i, lanes);
          return v * v;
        }));
  }
}

struct Square {
  f32x4 row[4];
};

FATHOM_SIMD Square transposed(const Square& s) {
  const f32x4 a = __builtin_shufflevector(s.row[0], s.row[1], 0, 4, 1, 5);
  const f32x4 b = __builtin_shufflevector(s.row[0], s.row[1], 2, 6, 3, 7);
  const f32x4 c = __builtin_shufflevector(s.row[2], s.row[3], 0, 4, 1, 5);
  const f32x4 d = __builtin_shufflevector(s.row[2], s.row[3], 2, 6, 3, 7);
  return {{__builtin_shufflevector(a, c, 0, 1, 4, 5), __builtin_shufflevector(a, c, 2, 3, 6, 7),
           __builtin_shufflevector(b, d, 0, 1, 4, 5), __builtin_shufflevector(b, d, 2, 3, 6, 7)}};
}

// Divides every column by its sum.
FATHOM_SIMD void divide_columns(Square& s, f32x4 eps) {
  const f32x4 total = ((s.row[0] + s.row[1]) + (s.row[2] + s.row[3])) + eps;
  for (f32x4& row : s.row) row /= total;
}

// Row by row softmax in f32: the square's columns are the rows of the matrix.
FATHOM_SIMD Square softmax_of_columns(const Square& s) {
  f32x4 largest = s.row[0];
  for (int i = 1; i < 4; ++i) largest = s.row[i] > largest ? s.row[i] : largest;
  alignas(64) float all[16];
  for (int i = 0; i < 4; ++i) {
    const f32x4 shifted = s.row[i] - largest;
    __builtin_memcpy(all + 4 * i, &shifted, sizeof(shifted));
  }
  store(all, exp(load(all)));
  Square e;
  __builtin_memcpy(e.row, all, sizeof(all));
  divide_columns(e, f32x4{});
  return e;
}

void mix_split4(const float* m, const float* scale, const float* base, int64_t iterations, double hc_eps,
                float* pre, float* post, float* comb) {
  const auto eps = static_cast<float>(hc_eps);
  alignas(64) float set[16] = {};
  for (int i = 0; i < 8; ++i) set[i] = m[i] * scale[i / 4] + base[i];
  store(set, sigmoid(load(set)));
  for (int i = 0; i < 4; ++i) {
    pre[i] = set[i] + eps;
    post[i] = 2 * set[4 + i];
  }
  for (int i = 0; i < 16; ++i) set[i] = m[8 + i] * scale[2] + base[8 + i];
  Square s;
  __builtin_memcpy(s.row, set, sizeof(set));
  s = softmax_of_columns(transposed(s));
  const f32x4 all_eps = {eps, eps, eps, eps};
  for (f32x4& row : s.row) row += all_eps;
  s = transposed(s);
  divide_columns(s, all_eps);
  for (int64_t k = 1; k < iterations; ++k) {
    s = transposed(s);
    divide_columns(s, all_eps);
    s = transposed(s);
    divide_columns(s, all_eps);
  }
  __builtin_memcpy(comb, s.row, sizeof(set));
}

// N copies as a constant, or `copies` of them.
template <int N>
FATHOM_SIMD void collapse_copies(const bf16* stream, const float* pre, int64_t copies, int64_t dim,
                                 bf16* out) {
  const int64_t count = N > 0 ? N : copies;
  for_lanes(
      dim, FATHOM_LANES {
        f32x16 total = splat(pre[0]) * load_bf16(stream + i, lanes);
        for (int64_t c = 1; c < count; ++c) total += splat(pre[c]) * load_bf16(stream + c * dim + i, lanes);
        store_bf16(out + i, total, lanes);
      });
}

void collapse(const bf16* stream, const float* pre, int64_t copies, int64_t dim, bf16* out) {
  if (copies == 4)
    collapse_copies<4>(stream, pre, copies, dim, out);
  else
    collapse_copies<0>(stream, pre, copies, dim, out);
}

void mean_copies(const bf16* stream, int64_t copies, int64_t dim, bf16* out) {
  const f32x16 count = splat(static_cast<float>(copies));
  for_lanes(
      dim, FATHOM_LANES {
        f32x16 total = load_bf16(stream + i, lanes);
        for (int64_t c = 1; c < copies; ++c) total += load_bf16(stream + c * dim + i, lanes);
        store_bf16(out + i, total / count, lanes);
      });
}

template <int N>
FATHOM_SIMD void expand_copies(const bf16* y, const float* post, const float* comb, int64_t copies,
                               int64_t dim, bf16* stream) {
  const int64_t count = N > 0 ? N : copies;
  for_lanes(
      dim, FATHOM_LANES {
        f32x16 h[N > 0 ? N : max_copies];
        for (int64_t c = 0; c < count; ++c) h[c] = load_bf16(stream + c * dim + i, lanes);
        const f32x16 value = load_bf16(y + i, lanes);
        for (int64_t j = 0; j < count; ++j) {
          f32x16 mixed = splat(comb[j]) * h[0];
          for (int64_t c = 1; c < count; ++c) mixed += splat(comb[c * count + j]) * h[c];
          store_bf16(stream + j * dim + i, splat(post[j]) * value + mixed, lanes);
        }
      });
}

void expand(const bf16* y, const float* post, const float* comb, int64_t copies, int64_t dim, bf16* stream) {
  if (copies == 4)
    expand_copies<4>(y, post, comb, copies, dim, stream);
  else
    expand_copies<0>(y, post, comb, copies, dim, stream);
}

void engram_sums(const bf16* h, const bf16* key, const float* qk, int64_t n, float* sums) {
  f32x16 dot = splat(0.0f);
  f32x16 h_squares = dot;
  f32x16 key_squares = dot;
  for_lanes(
      n, FATHOM_LANES {
        const f32x16 a = load_bf16(h + i, lanes);
        const f32x16 b = load_bf16(key + i, lanes);
        dot += (a * b) * load(qk + i, lanes);
        h_squares += a * a;
        key_squares += b * b;
      });
  sums[0] = sum(dot);
  sums[1] = sum(h_squares);
  sums[2] = sum(key_squares);
}

void add_scaled(const bf16* value, float factor, int64_t n, bf16* to) {
  for_lanes(
      n, FATHOM_LANES {
        store_bf16(to + i, load_bf16(to + i, lanes) + splat(factor) * load_bf16(value + i, lanes), lanes);
      });
}

}  // namespace

void add_hyper_kernels(RowKernels& to) {
  to.mix_chunk = mix_chunk;
  to.mix_split4 = mix_split4;
  to.collapse = collapse;
  to.mean_copies = mean_copies;
  to.expand = expand;
  to.engram_sums = engram_sums;
  to.add_scaled = add_scaled;
}

}  // namespace fathom::fast::FATHOM_ISA
