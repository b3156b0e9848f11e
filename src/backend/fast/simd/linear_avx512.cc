// Linear kernels for AVX-512 with VBMI and BF16.
//
// A result is the sum, in a fixed tree, of 16 lanes; a lane adds its column pairs in arranged order
// (VDPBF16PS). Where weights have scales it does so step by step: it adds up the products of 128 columns from
// zero, and then the steps, each times the scale of the one block that the lane has columns of. With few rows
// weights go from memory through registers to the sums, and the scale is a factor of a step's sum; with more
// they are unpacked to a panel first, the scale folded into them. Both give the same bits, as long as nothing
// becomes subnormal or infinite on the way: see smallest_usual_scale.
#include "backend/fast/simd/by_format.h"
#include "backend/fast/simd/unpack_avx512.h"

namespace fathom::fast::avx512 {
namespace {

// ---- Sums ----

// Not the intrinsic: g++ 12 copies the sum before every one of those.
FATHOM_INLINE __m512 dot(__m512 sum, __m512i w, __m512i x) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
  return sum;
}

// The fixed tree, for 16 sums at once: lane i + lane i + 8, then 4, 2, 1. out[j] is the sum of v[j].
FATHOM_INLINE __m512 reduce16(const __m512* v) {
  __m512 a[8];
  for (int i = 0; i < 8; ++i)
    a[i] =
        _mm512_add_ps(_mm512_shuffle_f32x4(v[i], v[i + 8], 0x44), _mm512_shuffle_f32x4(v[i], v[i + 8], 0xEE));
  __m512 b[4];  // lanes: i, i + 8 each with two quarters
  for (int i = 0; i < 4; ++i)
    b[i] =
        _mm512_add_ps(_mm512_shuffle_f32x4(a[i], a[i + 4], 0x88), _mm512_shuffle_f32x4(a[i], a[i + 4], 0xDD));
  __m512 c[2];
  for (int i = 0; i < 2; ++i) {
    const __m512d p = _mm512_castps_pd(b[i]);
    const __m512d q = _mm512_castps_pd(b[i + 2]);
    c[i] =
        _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(p, q)), _mm512_castpd_ps(_mm512_unpackhi_pd(p, q)));
  }
  const __m512 d = _mm512_add_ps(_mm512_shuffle_ps(c[0], c[1], 0x88), _mm512_shuffle_ps(c[0], c[1], 0xDD));
  // Quarter q, element e of d is the sum of v[4 * slot(e) + ...]: bring them into order.
  const __m512i order = _mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15);
  return _mm512_permutexvar_ps(order, d);
}

// ---- Few rows: from memory through registers ----

// The same tree for four sums, in lanes 0, 4, 8 and 12 of the result.
FATHOM_INLINE __m512 reduce4(const __m512* v) {
  const auto halves = [](__m512 a, __m512 b) __attribute__((always_inline)) {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
  };
  const __m512 a = halves(v[0], v[1]);
  const __m512 b = halves(v[2], v[3]);
  const __m512 c = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
  const __m512 d = _mm512_add_ps(c, _mm512_permute_ps(c, 0x4E));
  return _mm512_add_ps(d, _mm512_permute_ps(d, 0xB1));
}

// Reduces the sums of W weight rows and R input rows: out[r * r_stride + w * w_stride].
template <int W, int R>
FATHOM_INLINE void reduce(const __m512 (*sum)[R], float* out, int64_t r_stride, int64_t w_stride) {
  if constexpr (W == 4 && R == 1) {
    const __m512 four[4] = {sum[0][0], sum[1][0], sum[2][0], sum[3][0]};
    alignas(64) float sums[16];
    _mm512_store_ps(sums, reduce4(four));
    for (int i = 0; i < 4; ++i) out[i * w_stride] = sums[4 * i];
    return;
  }
  __m512 all[(W * R + 15) / 16 * 16];
#pragma GCC unroll 32
  for (int j = 0; j < (W * R + 15) / 16 * 16; ++j)
    all[j] = j < W * R ? sum[j % W][j / W] : _mm512_setzero_ps();
  alignas(64) float sums[(W * R + 15) / 16 * 16];
#pragma GCC unroll 2
  for (int j = 0; j < W * R; j += 16) _mm512_store_ps(sums + j, reduce16(all + j));
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    float* to = out + r * r_stride;
    if (W == 4 && w_stride == 1)
      _mm_storeu_ps(to, _mm_load_ps(sums + r * W));
    else
      for (int i = 0; i < W; ++i) to[i * w_stride] = sums[r * W + i];
  }
}

// How far ahead of its reading a row is prefetched. Rows of a stream lie one after the other.
constexpr int64_t prefetch_bytes = 2048;

// A step's weights times R input rows.
template <int R>
FATHOM_INLINE void add_products(const __m512i* w, const uint16_t* x, int64_t x_stride, __m512* sum) {
  for (int j = 0; j < 4; ++j)
    for (int r = 0; r < R; ++r) sum[r] = dot(sum[r], w[j], _mm512_load_si512(x + r * x_stride + j * 32));
}

// Adds a step of W weight rows, `stride` bytes apart, times R input rows to their sums. `left`: columns from
// its beginning to the end of the rows.
template <WeightFormat format, int W, int R, bool whole>
FATHOM_INLINE void stream_step(const Lookup& t, __m512i spread, const uint8_t* codes, int64_t stride,
                               const uint8_t* const* scales, int64_t s, int64_t left, const uint16_t* x,
                               int64_t x_stride, __m512 (*sum)[R]) {
  if constexpr (format != WeightFormat::bf16)  // those read so fast that the processor looks ahead enough
    for (int i = 0; i < W; ++i)
      for (int64_t line = 0; line < step_bytes<format>; line += 64)
        _mm_prefetch(codes + i * stride + prefetch_bytes + line, _MM_HINT_T0);
  for (int i = 0; i < W; ++i) {
    __m512i w[4];
    load_step<format, whole>(t, codes + i * stride, left, w);
    if constexpr (format == WeightFormat::bf16) {
      add_products<R>(w, x, x_stride, sum[i]);
    } else {
      const __m512 scale = _mm512_castsi512_ps(
          _mm512_srli_epi32(load_scales<whole>(scales[i] + s * blocks_per_step, left, spread), 1));
      __m512 products[R];
      for (int r = 0; r < R; ++r) products[r] = _mm512_setzero_ps();
      add_products<R>(w, x, x_stride, products);
      for (int r = 0; r < R; ++r) sum[i][r] = _mm512_fmadd_ps(products[r], scale, sum[i][r]);
    }
  }
}

// One row of each of W streams, which are `length` rows long, times R input rows.
template <WeightFormat format, int W, int R>
FATHOM_INLINE void stream(const StoredMatrix& m, int64_t first, int64_t length, const uint16_t* x,
                          int64_t x_stride, float* out, int64_t out_stride) {
  const Lookup t = load_tables();
  const __m512i spread = spread_to(0x01000000);
  const uint8_t* codes = m.codes + first * m.code_stride;
  const int64_t stride = length * m.code_stride;
  const uint8_t* scales[W] = {};
  __m512 sum[W][R];
  for (int i = 0; i < W; ++i) {
    for (int r = 0; r < R; ++r) sum[i][r] = _mm512_setzero_ps();
    if (format != WeightFormat::bf16) scales[i] = scale_row(m, first + i * length);
  }
  const int64_t whole = m.in / step;
  for (int64_t s = 0; s < whole; ++s, codes += step_bytes<format>)
    stream_step<format, W, R, true>(t, spread, codes, stride, scales, s, step, x + s * step, x_stride, sum);
  if (whole * step < m.in)
    stream_step<format, W, R, false>(t, spread, codes, stride, scales, whole, m.in - whole * step,
                                     x + whole * step, x_stride, sum);
  reduce<W, R>(sum, out, out_stride, length);
}

// ---- Many rows: a panel of unpacked weights ----

constexpr int panel_rows = 24;  // 250 KB at 5120 columns: half of a small L2
constexpr int tile_w = 4;
constexpr int tile_r = 6;
constexpr int64_t block_columns = 1280;  // of a tile's rows: half of a first-level cache

template <WeightFormat format>
FATHOM_INLINE void unpack_row(ScaledRow<format>& row, bool usual, uint16_t* out) {
  const int64_t whole = row.in / step;
  __m512i w[4];
  for (int64_t s = 0; s < whole; ++s) {
    row.template load<true>(s, usual, w);
    for (int j = 0; j < 4; ++j) _mm512_store_si512(out + s * step + 32 * j, w[j]);
  }
  if (whole * step < row.in) {
    row.template load<false>(whole, usual, w);
    for (int j = 0; j < 4; ++j) _mm512_store_si512(out + whole * step + 32 * j, w[j]);
  }
  if (row.found_nan()) out[0] = nan_weight;
}

// 32 columns of W panel rows times R input rows, onto `sum`.
template <int W, int R>
FATHOM_INLINE void panel_products(const uint16_t* panel, int64_t stride, const uint16_t* x, int64_t x_stride,
                                  __m512 (*sum)[R]) {
  __m512i w[W];
  for (int i = 0; i < W; ++i) {
    w[i] = _mm512_load_si512(panel + i * stride);
    asm("" : "+v"(w[i]));  // else g++ loads it again for every input row
  }
  for (int r = 0; r < R; ++r) {
    const __m512i v = _mm512_load_si512(x + r * x_stride);
    for (int i = 0; i < W; ++i) sum[i][r] = dot(sum[i][r], w[i], v);
  }
}

// Columns [k, end) of W panel rows times R input rows, onto `sum`.
template <bool by_steps, int W, int R>
FATHOM_INLINE void panel_tile(const uint16_t* panel, int64_t stride, int64_t k, int64_t end,
                              const uint16_t* x, int64_t x_stride, __m512 (*sum)[R]) {
  __m512 tile[W][R];
  if constexpr (by_steps) {
    for (; k < end; k += step) {
      for (auto& row : tile)
        for (__m512& v : row) v = _mm512_setzero_ps();
#pragma GCC unroll 4
      for (int64_t j = k; j < k + step; j += 32)
        panel_products<W, R>(panel + j, stride, x + j, x_stride, tile);
      for (int i = 0; i < W; ++i)
        for (int r = 0; r < R; ++r) sum[i][r] = _mm512_add_ps(sum[i][r], tile[i][r]);
    }
  } else {
    for (int i = 0; i < W; ++i)
      for (int r = 0; r < R; ++r) tile[i][r] = sum[i][r];
    for (; k < end; k += 32) panel_products<W, R>(panel + k, stride, x + k, x_stride, tile);
    for (int i = 0; i < W; ++i)
      for (int r = 0; r < R; ++r) sum[i][r] = tile[i][r];
  }
}

struct Panel {
  const uint16_t* data;
  int64_t stride;
  int64_t rows;
  int64_t columns;
};

// All panel rows, four at a time and then one by one, times R input rows.
template <bool by_steps, int R>
void panel_strip(const Panel& panel, const uint16_t* x, int64_t x_stride, float* out, int64_t out_stride) {
  __m512 sum[panel_rows][R];
  for (auto& row : sum)
    for (__m512& v : row) v = _mm512_setzero_ps();
  const int64_t fours = panel.rows / tile_w * tile_w;
  for (int64_t k = 0; k < panel.columns; k += block_columns) {
    const int64_t end = panel.columns - k < block_columns ? panel.columns : k + block_columns;
    for (int64_t i = 0; i < fours; i += tile_w)
      panel_tile<by_steps, tile_w, R>(panel.data + i * panel.stride, panel.stride, k, end, x, x_stride,
                                      sum + i);
    for (int64_t i = fours; i < panel.rows; ++i)
      panel_tile<by_steps, 1, R>(panel.data + i * panel.stride, panel.stride, k, end, x, x_stride, sum + i);
  }
  for (int64_t i = 0; i < fours; i += tile_w) reduce<tile_w, R>(sum + i, out + i, out_stride, 1);
  for (int64_t i = fours; i < panel.rows; ++i) reduce<1, R>(sum + i, out + i, out_stride, 1);
}

template <bool by_steps>
void panel_product(const Panel& panel, const ArrangedRows& x, float* out, int64_t out_stride) {
  const int64_t strips = (x.rows + tile_r - 1) / tile_r;
  for (int64_t strip = 0, r = 0; strip < strips; ++strip) {
    const int64_t rows = (x.rows - r + strips - strip - 1) / (strips - strip);  // as even as can be
    const uint16_t* v = x.data + r * x.block_stride;
    float* o = out + r * out_stride;
    r += rows;
    switch (rows) {
      case 1:
        panel_strip<by_steps, 1>(panel, v, x.block_stride, o, out_stride);
        break;
      case 2:
        panel_strip<by_steps, 2>(panel, v, x.block_stride, o, out_stride);
        break;
      case 3:
        panel_strip<by_steps, 3>(panel, v, x.block_stride, o, out_stride);
        break;
      case 4:
        panel_strip<by_steps, 4>(panel, v, x.block_stride, o, out_stride);
        break;
      case 5:
        panel_strip<by_steps, 5>(panel, v, x.block_stride, o, out_stride);
        break;
      default:
        panel_strip<by_steps, tile_r>(panel, v, x.block_stride, o, out_stride);
    }
  }
}

int64_t panel_stride(int64_t in) {
  return arranged_columns(in) + 32;
}  // a line more: rows must not share sets

int64_t panel_bytes(int64_t in) { return 2 * panel_rows * panel_stride(in); }

template <WeightFormat format>
FATHOM_INLINE bool multiply_panels(const StoredMatrix& m, int64_t first, int64_t num_out,
                                   const ArrangedRows& x, float* out, int64_t out_stride, uint8_t* memory) {
  auto* data = reinterpret_cast<uint16_t*>(memory);
  const int64_t stride = panel_stride(m.in);
  ScaledRow<format> row;
  Scales kind = Scales::usual;
  bool numbers = true;
  for (int64_t o = 0; o < num_out; o += panel_rows) {
    const int64_t count = num_out - o < panel_rows ? num_out - o : panel_rows;
    for (int64_t i = 0; i < count; ++i) {
      if (format != WeightFormat::bf16 && (o + i == 0 || (first + o + i) % m.rows_per_scale == 0))
        kind = check_scales(scale_row(m, first + o + i), m.in / 32, smallest_usual_scale, one_scale);
      numbers &= kind != Scales::nan;
      row.begin(m, first + o + i);
      unpack_row(row, kind == Scales::usual, data + i * stride);
    }
    panel_product<format != WeightFormat::bf16>({data, stride, count, arranged_columns(m.in)}, x, out + o,
                                                out_stride);
  }
  return numbers;
}

// ---- The product ----

void arrange(WeightFormat format, const uint16_t* const* rows, int64_t, int64_t in, uint16_t* out) {
  arrange_row(format, rows[0], in, out);
  if (format == WeightFormat::bf16) return;
  for (int64_t i = 0; i < arranged_columns(in); i += 32)
    _mm512_store_si512(out + i, clear_tiny(_mm512_load_si512(out + i)));
}

// W streams of weight rows, each contiguous in memory, so that prefetchers can follow.
template <WeightFormat format, int W, int R>
FATHOM_INLINE bool multiply_few(const StoredMatrix& m, int64_t first, int64_t num_out, const ArrangedRows& x,
                                float* out, int64_t out_stride, uint8_t* memory) {
  const bool usual = format == WeightFormat::bf16 || check_rows(m, first, num_out) == Scales::usual;
  const int64_t length = usual ? num_out / W : 0;
  for (int64_t o = 0; o < length; ++o)
    stream<format, W, R>(m, first + o, length, x.data, x.block_stride, out + o, out_stride);
  const int64_t rest = num_out - W * length;
  return rest == 0 ||
         multiply_panels<format>(m, first + W * length, rest, x, out + W * length, out_stride, memory);
}

template <WeightFormat format>
bool multiply_format(const StoredMatrix& m, int64_t first, int64_t num_out, const ArrangedRows& x, float* out,
                     int64_t out_stride, uint8_t* memory) {
  if (num_out == 0) return true;
  // As many streams as there are registers for.
  constexpr int fewer = format == WeightFormat::bf16 ? 4 : 3;
  switch (x.rows) {
    case 0:
      return true;
    case 1:
      return multiply_few<format, 4, 1>(m, first, num_out, x, out, out_stride, memory);
    case 2:
      return multiply_few<format, 4, 2>(m, first, num_out, x, out, out_stride, memory);
    case 3:
      return multiply_few<format, 4, 3>(m, first, num_out, x, out, out_stride, memory);
    case 4:
      return multiply_few<format, 4, 4>(m, first, num_out, x, out, out_stride, memory);
    case 5:
      return multiply_few<format, fewer, 5>(m, first, num_out, x, out, out_stride, memory);
    case 6:
      return multiply_few<format, fewer, 6>(m, first, num_out, x, out, out_stride, memory);
    case 7:
      return multiply_few<format, 3, 7>(m, first, num_out, x, out, out_stride, memory);
    case 8:
      return multiply_few<format, 3, 8>(m, first, num_out, x, out, out_stride, memory);
    default:
      return multiply_panels<format>(m, first, num_out, x, out, out_stride, memory);
  }
}

bool multiply(const StoredMatrix& m, int64_t first, int64_t num_out, const ArrangedRows& x, float* out,
              int64_t out_stride, uint8_t* memory) {
  return by_format(m.format, [&]<WeightFormat format>() {
    return multiply_format<format>(m, first, num_out, x, out, out_stride, memory);
  });
}

int64_t block_values(int64_t in) { return arranged_columns(in); }

}  // namespace

const LinearKernels linear = {1, panel_rows, 4 * panel_rows, arrange, multiply, panel_bytes, block_values};

}  // namespace fathom::fast::avx512
