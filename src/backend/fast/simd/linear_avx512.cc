// Linear kernels for AVX-512 with VBMI and BF16.
//
// A result is the sum, in a fixed tree, of 16 lanes. A lane adds up its pair products of a step of 128
// columns (four VDPBF16PS, from zero), and then the steps: times the scale of the one block it has columns
// of. With few rows weights go from memory through registers to the sums and the scale is a factor of a
// step's sum; with more they are unpacked to a panel first, the scale folded into them. Both give the same
// bits: scales are powers of two, and inputs so small that a product could become subnormal count as zero.
#include "backend/fast/simd/linear_kernels.h"
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

// Sums of W weight rows and R input rows, reduced; store(weight row, input row, sum).
template <int W, int R, class Store>
FATHOM_INLINE void reduce(const __m512 (*sum)[R], const Store& store) {
  if constexpr (W == 4 && R == 1) {
    const __m512 four[4] = {sum[0][0], sum[1][0], sum[2][0], sum[3][0]};
    alignas(64) float sums[16];
    _mm512_store_ps(sums, reduce4(four));
    for (int i = 0; i < 4; ++i) store(i, 0, sums[4 * i]);
    return;
  }
  for (int first = 0; first < W * R; first += 16) {
    __m512 all[16];
    for (int j = 0; j < 16; ++j)
      all[j] = first + j < W * R ? sum[(first + j) / R][(first + j) % R] : _mm512_setzero_ps();
    alignas(64) float sums[16];
    _mm512_store_ps(sums, reduce16(all));
    for (int j = 0; j < 16 && first + j < W * R; ++j) store((first + j) / R, (first + j) % R, sums[j]);
  }
}

// How far ahead of its reading a row is prefetched. Rows of a stream lie one after the other.
constexpr int64_t prefetch_bytes = 2048;

// The factors of a step's sums. `careful`: some scale may have code 0, the only one whose power of two is not
// a normal number.
template <bool whole, bool careful>
FATHOM_INLINE __m512 step_scale(const uint8_t* scales, int64_t left, __m512i spread) {
  const __m512i bits = _mm512_srli_epi32(load_scales<whole>(scales, left, spread), 1);
  if (!careful) return _mm512_castsi512_ps(bits);
  return _mm512_castsi512_ps(_mm512_mask_set1_epi32(bits, _mm512_testn_epi32_mask(bits, bits), 0x00400000));
}

// Adds a step of W weight rows, `stride` bytes apart, times R input rows to their sums. `left`: columns from
// its beginning to the end of the rows.
template <WeightFormat format, int W, int R, bool whole, bool careful>
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
    __m512 scale = _mm512_setzero_ps();
    if constexpr (format != WeightFormat::bf16)
      scale = step_scale<whole, careful>(scales[i] + s * blocks_per_step, left, spread);
    for (int r = 0; r < R; ++r) {
      __m512 products = _mm512_setzero_ps();
      for (int j = 0; j < 4; ++j)
        products = dot(products, w[j], _mm512_load_si512(x + r * x_stride + j * 32));
      sum[i][r] = format == WeightFormat::bf16 ? _mm512_add_ps(sum[i][r], products)
                                               : _mm512_fmadd_ps(products, scale, sum[i][r]);
    }
  }
}

// One row of each of W streams, which are `length` rows long, times R input rows.
template <WeightFormat format, int W, int R, bool careful = false>
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
    if (format == WeightFormat::bf16) continue;
    scales[i] = scale_row(m, first + i * length);
    if (format == WeightFormat::fp4)  // those of the stream's next row
      for (int64_t line = 0; line < m.scale_stride; line += 64)
        _mm_prefetch(scales[i] + m.scale_stride + line, _MM_HINT_T0);
  }
  const int64_t whole = m.in / step;
  for (int64_t s = 0; s < whole; ++s, codes += step_bytes<format>)
    stream_step<format, W, R, true, careful>(t, spread, codes, stride, scales, s, step, x + s * step,
                                             x_stride, sum);
  if (whole * step < m.in)
    stream_step<format, W, R, false, careful>(t, spread, codes, stride, scales, whole, m.in - whole * step,
                                              x + whole * step, x_stride, sum);
  reduce<W, R>(
      sum, [&](int i, int r, float value)
               __attribute__((always_inline)) { out[r * out_stride + i * length] = value; });
}

// A weight row whose scales are anything but NaN, times all input rows.
template <WeightFormat format>
void multiply_careful(const StoredMatrix& m, int64_t row, const ArrangedRows& x, float* out,
                      int64_t out_stride) {
  for (int64_t r = 0; r < x.rows; ++r)
    stream<format, 1, 1, true>(m, row, 0, x.data + r * x.block_stride, 0, out + r * out_stride, 0);
}

// ---- Many rows: a panel of unpacked weights ----

constexpr int panel_rows = 24;  // 250 KB at 5120 columns: half of a small L2
constexpr int tile_w = 4;
constexpr int tile_r = 6;
constexpr int64_t block_columns = 2048;  // of six input rows: half of a first-level cache

// A panel stays exact, and its products normal numbers, with scales in this range; see arrange().
constexpr int smallest_folded_scale = 97;  // 2^-30

// What will be read from memory next, asked for a little at every tile.
struct Ahead {
  const uint8_t* at = nullptr;
  int64_t lines = 0;

  FATHOM_INLINE_MEMBER void advance() {
    for (int64_t i = 0; i < lines; ++i, at += 64) _mm_prefetch(at, _MM_HINT_T1);
  }
};

template <WeightFormat format>
FATHOM_INLINE void unpack_row(ScaledRow<format>& row, uint16_t* out) {
  const int64_t whole = row.in / step;
  __m512i w[4];
  for (int64_t s = 0; s < whole; ++s) {
    row.template load<true>(s, w);
    for (int j = 0; j < 4; ++j) _mm512_store_si512(out + s * step + 32 * j, w[j]);
  }
  if (whole * step < row.in) {
    row.template load<false>(whole, w);
    for (int j = 0; j < 4; ++j) _mm512_store_si512(out + whole * step + 32 * j, w[j]);
  }
  if (row.found_nan()) out[0] = nan_weight;
}

// Columns [k, end) of W panel rows times R input rows, onto `sum`. `ahead`: an input row to be read soon.
template <int W, int R>
FATHOM_INLINE void panel_tile(const uint16_t* panel, int64_t stride, int64_t k, int64_t end,
                              const uint16_t* x, int64_t x_stride, const uint16_t* ahead, __m512 (*sum)[R]) {
  for (; k < end; k += step) {
    __m512 products[W][R];
    for (int i = 0; i < W; ++i)
      for (int r = 0; r < R; ++r) products[i][r] = _mm512_setzero_ps();
#pragma GCC unroll 4
    for (int64_t j = k; j < k + step; j += 32) {
      _mm_prefetch(ahead + j, _MM_HINT_T1);
      __m512i w[W];
      for (int i = 0; i < W; ++i) w[i] = _mm512_load_si512(panel + i * stride + j);
      for (int r = 0; r < R; ++r) {
        const __m512i v = _mm512_load_si512(x + r * x_stride + j);
        for (int i = 0; i < W; ++i) products[i][r] = dot(products[i][r], w[i], v);
      }
    }
    for (int i = 0; i < W; ++i)
      for (int r = 0; r < R; ++r) sum[i][r] = _mm512_add_ps(sum[i][r], products[i][r]);
  }
}

struct Panel {
  const uint16_t* data;
  int64_t stride;
  int64_t rows;
  int64_t columns;
};

// All panel rows, four at a time and then one by one, times R input rows; `more` input rows follow.
template <int R>
void panel_strip(const Panel& panel, const uint16_t* x, int64_t x_stride, int64_t more, Ahead& ahead,
                 float* out, int64_t out_stride) {
  __m512 sum[panel_rows][R];
  for (auto& row : sum)
    for (__m512& v : row) v = _mm512_setzero_ps();
  const int64_t fours = panel.rows / tile_w * tile_w;
  for (int64_t k = 0; k < panel.columns; k += block_columns) {
    const int64_t end = panel.columns - k < block_columns ? panel.columns : k + block_columns;
    for (int64_t i = 0; i < fours; i += tile_w) {
      // The next strip has as many rows as a panel has fours.
      const int64_t next = i / tile_w < more ? R + i / tile_w : 0;
      ahead.advance();
      panel_tile<tile_w, R>(panel.data + i * panel.stride, panel.stride, k, end, x, x_stride,
                            x + next * x_stride, sum + i);
    }
    for (int64_t i = fours; i < panel.rows; ++i)
      panel_tile<1, R>(panel.data + i * panel.stride, panel.stride, k, end, x, x_stride, x, sum + i);
  }
  for (int64_t i = 0; i < fours; i += tile_w)
    reduce<tile_w, R>(
        sum + i, [&](int w, int r, float value)
                     __attribute__((always_inline)) { out[r * out_stride + i + w] = value; });
  for (int64_t i = fours; i < panel.rows; ++i)
    reduce<1, R>(
        sum + i, [&](int, int r, float value)
                     __attribute__((always_inline)) { out[r * out_stride + i] = value; });
}

void panel_product(const Panel& panel, const ArrangedRows& x, Ahead ahead, float* out, int64_t out_stride) {
  for (int64_t r = 0; r < x.rows; r += tile_r) {
    const uint16_t* v = x.data + r * x.block_stride;
    float* o = out + r * out_stride;
    const int64_t more = x.rows - r - tile_r;
    switch (x.rows - r) {
      case 1:
        panel_strip<1>(panel, v, x.block_stride, 0, ahead, o, out_stride);
        break;
      case 2:
        panel_strip<2>(panel, v, x.block_stride, 0, ahead, o, out_stride);
        break;
      case 3:
        panel_strip<3>(panel, v, x.block_stride, 0, ahead, o, out_stride);
        break;
      case 4:
        panel_strip<4>(panel, v, x.block_stride, 0, ahead, o, out_stride);
        break;
      case 5:
        panel_strip<5>(panel, v, x.block_stride, 0, ahead, o, out_stride);
        break;
      default:
        panel_strip<tile_r>(panel, v, x.block_stride, more, ahead, o, out_stride);
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
  const int64_t strips = (x.rows + tile_r - 1) / tile_r;
  const int64_t blocks = (m.in + block_columns - 1) / block_columns;
  const int64_t tiles = strips * blocks * (panel_rows / tile_w);
  const int64_t lines = (panel_rows * m.code_stride / 64 + tiles - 1) / tiles;
  ScaledRow<format> row;
  bool numbers = true;
  for (int64_t o = 0; o < num_out; o += panel_rows) {
    const int64_t count = num_out - o < panel_rows ? num_out - o : panel_rows;
    Scales kind[panel_rows] = {};
    for (int64_t i = 0; i < count; ++i) {
      if (format != WeightFormat::bf16)
        kind[i] =
            i > 0 && (first + o + i) % m.rows_per_scale != 0
                ? kind[i - 1]
                : check_scales(scale_row(m, first + o + i), m.in / 32, smallest_folded_scale, one_scale);
      row.begin(m, first + o + i);
      unpack_row(row, data + i * stride);
    }
    const Ahead ahead{m.codes + (first + o + count) * m.code_stride, o + count < num_out ? lines : 0};
    panel_product({data, stride, count, arranged_columns(m.in)}, x, ahead, out + o, out_stride);
    for (int64_t i = 0; i < count; ++i) {
      numbers &= kind[i] != Scales::nan;
      if (kind[i] == Scales::unusual) multiply_careful<format>(m, first + o + i, x, out + o + i, out_stride);
    }
  }
  return numbers;
}

// ---- The product ----

// With inputs of at least 2^-70, weights of at least 2^-9 and scales of at least 2^-30, a product is a
// multiple of 2^-124: no sum of them is subnormal, which VDPBF16PS would take for zero.
void clear_tiny(uint16_t* x, int64_t n) {
  const __m512i magnitude = _mm512_set1_epi16(0x7FFF);
  const __m512i smallest = _mm512_set1_epi16((127 - 70) << 7);
  for (int64_t i = 0; i < n; i += 32) {
    const __m512i v = _mm512_load_si512(x + i);
    _mm512_store_si512(
        x + i, _mm512_maskz_mov_epi16(_mm512_cmpge_epu16_mask(_mm512_and_si512(v, magnitude), smallest), v));
  }
}

void arrange(WeightFormat format, const uint16_t* const* rows, int64_t, int64_t in, uint16_t* out) {
  arrange_row(format, rows[0], in, out);
  if (format != WeightFormat::bf16) clear_tiny(out, arranged_columns(in));
}

// W streams of weight rows, each contiguous in memory, so that prefetchers can follow.
template <WeightFormat format, int W, int R>
FATHOM_INLINE bool multiply_few(const StoredMatrix& m, int64_t first, int64_t num_out, const ArrangedRows& x,
                                float* out, int64_t out_stride) {
  constexpr int smallest = 1;
  constexpr int largest = nan_scale - 1;
  const int64_t length = num_out / W;
  bool numbers = true;
  Scales kind[W] = {};
  for (int64_t o = 0; o < length; ++o) {
    bool usual = true;
    for (int i = 0; i < W && format != WeightFormat::bf16; ++i) {
      const int64_t row = first + i * length + o;
      if (o == 0 || row % m.rows_per_scale == 0)
        kind[i] = check_scales(scale_row(m, row), m.in / 32, smallest, largest);
      usual &= kind[i] == Scales::usual;
      numbers &= kind[i] != Scales::nan;
    }
    if (usual)
      stream<format, W, R>(m, first + o, length, x.data, x.block_stride, out + o, out_stride);
    else
      for (int64_t i = 0; i < W; ++i)
        multiply_careful<format>(m, first + i * length + o, x, out + i * length + o, out_stride);
  }
  for (int64_t o = W * length; o < num_out; ++o) {
    if (format != WeightFormat::bf16)
      numbers &= check_scales(scale_row(m, first + o), m.in / 32, smallest, largest) != Scales::nan;
    multiply_careful<format>(m, first + o, x, out + o, out_stride);
  }
  return numbers;
}

template <WeightFormat format>
bool multiply_format(const StoredMatrix& m, int64_t first, int64_t num_out, const ArrangedRows& x, float* out,
                     int64_t out_stride, uint8_t* memory) {
  switch (x.rows) {
    case 0:
      return true;
    case 1:
      return multiply_few<format, 4, 1>(m, first, num_out, x, out, out_stride);
    case 2:
      return multiply_few<format, 4, 2>(m, first, num_out, x, out, out_stride);
    case 3:
      return multiply_few<format, 4, 3>(m, first, num_out, x, out, out_stride);
    case 4:
      return multiply_few<format, 4, 4>(m, first, num_out, x, out, out_stride);
    case 5:
      return multiply_few<format, 3, 5>(m, first, num_out, x, out, out_stride);
    case 6:
      return multiply_few<format, 3, 6>(m, first, num_out, x, out, out_stride);
    case 7:
      return multiply_few<format, 2, 7>(m, first, num_out, x, out, out_stride);
    case 8:
      return multiply_few<format, 2, 8>(m, first, num_out, x, out, out_stride);
    default:
      return multiply_panels<format>(m, first, num_out, x, out, out_stride, memory);
  }
}

bool multiply(const StoredMatrix& m, int64_t first, int64_t num_out, const ArrangedRows& x, float* out,
              int64_t out_stride, uint8_t* memory) {
  switch (m.format) {
    case WeightFormat::fp4:
      return multiply_format<WeightFormat::fp4>(m, first, num_out, x, out, out_stride, memory);
    case WeightFormat::fp8:
      return multiply_format<WeightFormat::fp8>(m, first, num_out, x, out, out_stride, memory);
    case WeightFormat::bf16:
      break;
  }
  return multiply_format<WeightFormat::bf16>(m, first, num_out, x, out, out_stride, memory);
}

}  // namespace

const LinearKernels linear = {1, arrange, multiply, panel_bytes};

}  // namespace fathom::fast::avx512
