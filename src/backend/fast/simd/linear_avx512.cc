// Linear kernels for AVX-512 with VBMI and BF16.
//
// A result is the sum, in a fixed tree, of 16 lanes; a lane adds its column pairs in arranged order
// (VDPBF16PS). With few rows weights go from memory through registers to the sums; with more they are
// unpacked to a panel of bf16 rows first, which all input rows then use from the caches.
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

template <WeightFormat format, int W, int R, bool whole>
FATHOM_INLINE void stream_step(const Lookup& t, RowCursor* row, int64_t s, int64_t left, const uint16_t* x,
                               int64_t x_stride, __m512 (*sum)[R]) {
  if constexpr (format != WeightFormat::bf16)  // those read so fast that the processor looks ahead enough
    for (int i = 0; i < W; ++i)
      for (int64_t line = 0; line < step_bytes<format>; line += 64)
        _mm_prefetch(row[i].codes + s * step_bytes<format> + prefetch_bytes + line, _MM_HINT_T0);
  for (int i = 0; i < W; ++i) {
    __m512i w[4];
    load_step<format, whole>(t, row[i], s, left, w);
    for (int j = 0; j < 4; ++j)
      for (int r = 0; r < R; ++r)
        sum[i][r] = dot(sum[i][r], w[j], _mm512_load_si512(x + r * x_stride + s * step + j * 32));
  }
}

// One row of each of W streams, which are `length` rows long, times R input rows; their lowering is prepared.
template <WeightFormat format, int W, int R>
FATHOM_INLINE void stream(const Lookup& t, const StoredMatrix& m, int64_t first, int64_t length,
                          const uint16_t* x, int64_t x_stride, const uint16_t* const* lowering, float* out,
                          int64_t out_stride) {
  RowCursor row[W];
  __m512 sum[W][R];
  for (int i = 0; i < W; ++i) {
    row[i] = {m.codes + (first + i * length) * m.code_stride, lowering[i], _mm512_setzero_si512()};
    for (int r = 0; r < R; ++r) sum[i][r] = _mm512_setzero_ps();
  }
  const int64_t whole = m.in / step;
  for (int64_t s = 0; s < whole; ++s) {
    if (format == WeightFormat::fp4 &&
        s < 3 * W)  // three lines of scales of each stream's next row, one a step
      _mm_prefetch(scale_row(m, first + s / 3 * length + 1) + s % 3 * 64, _MM_HINT_T0);
    stream_step<format, W, R, true>(t, row, s, step, x, x_stride, sum);
  }
  if (whole * step < m.in)
    stream_step<format, W, R, false>(t, row, whole, m.in - whole * step, x, x_stride, sum);
  reduce<W, R>(
      sum, [&](int i, int r, float value) __attribute__((always_inline)) {
        out[r * out_stride + i * length] = found_nan(format, row[i]) ? __builtin_nanf("") : value;
      });
}

// ---- Many rows: a panel of unpacked weights ----

template <WeightFormat format>
FATHOM_INLINE void unpack_row(const Lookup& t, const StoredMatrix& m, int64_t row, const uint16_t* lowering,
                              uint16_t* out) {
  RowCursor cursor{m.codes + row * m.code_stride, lowering, _mm512_setzero_si512()};
  const int64_t whole = m.in / step;
  __m512i w[4];
  for (int64_t s = 0; s < whole; ++s) {
    load_step<format, true>(t, cursor, s, step, w);
    for (int j = 0; j < 4; ++j) _mm512_store_si512(out + s * step + 32 * j, w[j]);
  }
  if (whole * step < m.in) {
    load_step<format, false>(t, cursor, whole, m.in - whole * step, w);
    for (int j = 0; j < 4; ++j) _mm512_store_si512(out + whole * step + 32 * j, w[j]);
  }
  if (found_nan(format, cursor)) out[0] = 0x7FC0;
}

constexpr int panel_rows = 24;  // 250 KB at 5120 columns: half of a small L2
constexpr int tile_w = 4;
constexpr int tile_r = 6;
constexpr int64_t block_columns = 2048;  // of six input rows: half of a first-level cache

// Columns [k, end) of W panel rows times R input rows, onto sums that begin at zero or go on from `kept`.
template <int W, int R>
FATHOM_INLINE void panel_tile(const uint16_t* panel, int64_t stride, int64_t k, int64_t end,
                              const uint16_t* x, int64_t x_stride, bool begin, __m512 (*kept)[R]) {
  __m512 sum[W][R];
  for (int i = 0; i < W; ++i)
    for (int r = 0; r < R; ++r) sum[i][r] = begin ? _mm512_setzero_ps() : kept[i][r];
  for (; k < end; k += 32) {
    __m512i w[W];
    for (int i = 0; i < W; ++i) w[i] = _mm512_load_si512(panel + i * stride + k);
    for (int r = 0; r < R; ++r) {
      const __m512i v = _mm512_load_si512(x + r * x_stride + k);
      for (int i = 0; i < W; ++i) sum[i][r] = dot(sum[i][r], w[i], v);
    }
  }
  for (int i = 0; i < W; ++i)
    for (int r = 0; r < R; ++r) kept[i][r] = sum[i][r];
}

// All panel rows, four at a time and then one by one, times R input rows.
template <int R>
void panel_strip(const uint16_t* panel, int64_t stride, int64_t num_w, int64_t columns, const uint16_t* x,
                 int64_t x_stride, float* out, int64_t out_stride) {
  __m512 kept[panel_rows][R];
  const int64_t fours = num_w / tile_w * tile_w;
  for (int64_t k = 0; k < columns; k += block_columns) {
    const int64_t end = columns - k < block_columns ? columns : k + block_columns;
    for (int64_t i = 0; i < fours; i += tile_w)
      panel_tile<tile_w, R>(panel + i * stride, stride, k, end, x, x_stride, k == 0, kept + i);
    for (int64_t i = fours; i < num_w; ++i)
      panel_tile<1, R>(panel + i * stride, stride, k, end, x, x_stride, k == 0, kept + i);
  }
  for (int64_t i = 0; i < fours; i += tile_w)
    reduce<tile_w, R>(
        kept + i, [&](int w, int r, float value)
                      __attribute__((always_inline)) { out[r * out_stride + i + w] = value; });
  for (int64_t i = fours; i < num_w; ++i)
    reduce<1, R>(
        kept + i, [&](int, int r, float value)
                      __attribute__((always_inline)) { out[r * out_stride + i] = value; });
}

void panel_product(const uint16_t* panel, int64_t stride, int64_t num_w, int64_t columns,
                   const ArrangedRows& x, float* out, int64_t out_stride) {
  for (int64_t r = 0; r < x.rows; r += tile_r) {
    const uint16_t* v = x.data + r * x.block_stride;
    float* o = out + r * out_stride;
    switch (x.rows - r) {
      case 1:
        panel_strip<1>(panel, stride, num_w, columns, v, x.block_stride, o, out_stride);
        break;
      case 2:
        panel_strip<2>(panel, stride, num_w, columns, v, x.block_stride, o, out_stride);
        break;
      case 3:
        panel_strip<3>(panel, stride, num_w, columns, v, x.block_stride, o, out_stride);
        break;
      case 4:
        panel_strip<4>(panel, stride, num_w, columns, v, x.block_stride, o, out_stride);
        break;
      case 5:
        panel_strip<5>(panel, stride, num_w, columns, v, x.block_stride, o, out_stride);
        break;
      default:
        panel_strip<tile_r>(panel, stride, num_w, columns, v, x.block_stride, o, out_stride);
    }
  }
}

// ---- The product ----

void arrange(WeightFormat format, const uint16_t* const* rows, int64_t, int64_t in, uint16_t* out) {
  arrange_row(format, rows[0], in, out);
}

// Working memory: the lowering of the streams and of a panel row, then the panel with a row for
// unpack_unusual at its end.
constexpr int lowering_rows = 5;
int64_t lowering_words(int64_t in) { return (in / 32 + 63) / 32 * 32; }
int64_t panel_stride(int64_t in) {
  return arranged_columns(in) + 32;
}  // a line more: rows must not share sets

int64_t panel_bytes(int64_t in) {
  return 2 * (lowering_rows * lowering_words(in) + (panel_rows + 1) * panel_stride(in));
}

struct Work {
  const StoredMatrix& m;
  uint16_t* lowering[lowering_rows];
  uint16_t* panel;
  int64_t stride;
  bool nan = false;

  Work(const StoredMatrix& matrix, uint8_t* memory)
      : m(matrix),
        panel(reinterpret_cast<uint16_t*>(memory) + lowering_rows * lowering_words(matrix.in)),
        stride(panel_stride(matrix.in)) {
    for (int i = 0; i < lowering_rows; ++i)
      lowering[i] = reinterpret_cast<uint16_t*>(memory) + i * lowering_words(matrix.in);
  }
  uint16_t* panel_row(int64_t i) const { return panel + i * stride; }
};

template <WeightFormat format>
FATHOM_INLINE void fill_panel(Work& work, const Lookup& t, int64_t first, int64_t count) {
  Scales kind = Scales::usual;
  for (int64_t i = 0; i < count; ++i) {
    if (format != WeightFormat::bf16 && (i == 0 || (first + i) % work.m.rows_per_scale == 0))
      kind = prepare_scales(scale_row(work.m, first + i), work.m.in / 32, work.lowering[lowering_rows - 1]);
    work.nan |= kind == Scales::nan;
    if (kind == Scales::usual)
      unpack_row<format>(t, work.m, first + i, work.lowering[lowering_rows - 1], work.panel_row(i));
    else
      unpack_unusual(work.m, first + i, work.panel_row(panel_rows), work.panel_row(i));
  }
}

template <WeightFormat format>
FATHOM_INLINE void multiply_panels(Work& work, int64_t first, int64_t num_out, const ArrangedRows& x,
                                   float* out, int64_t out_stride) {
  const Lookup t = load_tables();
  const int64_t columns = arranged_columns(work.m.in);
  for (int64_t o = 0; o < num_out; o += panel_rows) {
    const int64_t count = num_out - o < panel_rows ? num_out - o : panel_rows;
    fill_panel<format>(work, t, first + o, count);
    panel_product(work.panel, work.stride, count, columns, x, out + o, out_stride);
  }
}

// W streams of weight rows, each contiguous in memory, so that prefetchers can follow.
template <WeightFormat format, int W, int R>
FATHOM_INLINE void multiply_few(Work& work, int64_t first, int64_t num_out, const ArrangedRows& x, float* out,
                                int64_t out_stride) {
  const Lookup t = load_tables();
  const int64_t length = num_out / W;
  Scales kind[W] = {};
  for (int64_t o = 0; o < length; ++o) {
    bool usual = true;
    for (int i = 0; i < W && format != WeightFormat::bf16; ++i) {
      const int64_t row = first + i * length + o;
      if (o == 0 || row % work.m.rows_per_scale == 0) {
        kind[i] = prepare_scales(scale_row(work.m, row), work.m.in / 32, work.lowering[i]);
        work.nan |= kind[i] == Scales::nan;
      }
      usual &= kind[i] == Scales::usual;
    }
    if (usual) {
      stream<format, W, R>(t, work.m, first + o, length, x.data, x.block_stride, work.lowering, out + o,
                           out_stride);
    } else {
      for (int64_t i = 0; i < W; ++i)
        multiply_panels<format>(work, first + i * length + o, 1, x, out + i * length + o, out_stride);
    }
  }
  if (length * W < num_out)
    multiply_panels<format>(work, first + length * W, num_out - length * W, x, out + length * W, out_stride);
}

template <WeightFormat format>
bool multiply_format(const StoredMatrix& m, int64_t first, int64_t num_out, const ArrangedRows& x, float* out,
                     int64_t out_stride, uint8_t* memory) {
  Work work(m, memory);
  switch (x.rows) {
    case 0:
      break;
    case 1:
      multiply_few<format, 4, 1>(work, first, num_out, x, out, out_stride);
      break;
    case 2:
      multiply_few<format, 4, 2>(work, first, num_out, x, out, out_stride);
      break;
    case 3:
      multiply_few<format, 4, 3>(work, first, num_out, x, out, out_stride);
      break;
    case 4:
      multiply_few<format, 4, 4>(work, first, num_out, x, out, out_stride);
      break;
    case 5:
      multiply_few<format, 4, 5>(work, first, num_out, x, out, out_stride);
      break;
    case 6:
      multiply_few<format, 4, 6>(work, first, num_out, x, out, out_stride);
      break;
    case 7:
      multiply_few<format, 3, 7>(work, first, num_out, x, out, out_stride);
      break;
    case 8:
      multiply_few<format, 3, 8>(work, first, num_out, x, out, out_stride);
      break;
    default:
      multiply_panels<format>(work, first, num_out, x, out, out_stride);
  }
  return !work.nan;
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
