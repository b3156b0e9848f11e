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

FATHOM_INLINE __m512 dot(__m512 sum, __m512i w, __m512i x) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(w), reinterpret_cast<__m512bh>(x));
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

template <WeightFormat format, int W, int R, bool whole>
FATHOM_INLINE void stream_step(const Lookup& t, RowCursor* row, int64_t s, int64_t left, const uint16_t* x,
                               int64_t x_stride, __m512 (*sum)[R]) {
  for (int i = 0; i < W; ++i) {
    __m512i w[4];
    load_step<format, whole>(t, row[i], s, left, w);
    for (int j = 0; j < 4; ++j)
      for (int r = 0; r < R; ++r)
        sum[i][r] = dot(sum[i][r], w[j], _mm512_load_si512(x + r * x_stride + s * step + j * 32));
  }
}

// W weight rows, whose lowering is prepared, times R input rows.
template <WeightFormat format, int W, int R>
FATHOM_INLINE void stream(const Lookup& t, const StoredMatrix& m, int64_t first, const uint16_t* x,
                          int64_t x_stride, const uint16_t* const* lowering, float* out, int64_t out_stride) {
  RowCursor row[W];
  __m512 sum[W][R];
  for (int i = 0; i < W; ++i) {
    row[i] = {m.codes + (first + i) * m.code_stride, lowering[i], _mm512_setzero_si512()};
    for (int r = 0; r < R; ++r) sum[i][r] = _mm512_setzero_ps();
  }
  // The same columns of the rows that come next: no hardware prefetcher foresees the jump from row to row.
  const uint8_t* ahead = m.codes + (first + W) * m.code_stride;
  const uint8_t* scales_ahead = m.scales + (first + W) * m.scale_stride;
  const int64_t whole = m.in / step;
  constexpr int64_t step_bytes = format == WeightFormat::fp4   ? step / 2
                                 : format == WeightFormat::fp8 ? step
                                                               : 2 * step;
  for (int64_t s = 0; s < whole; ++s) {
    for (int i = 0; i < W; ++i)
      for (int64_t line = 0; line < step_bytes; line += 64)
        _mm_prefetch(ahead + i * m.code_stride + s * step_bytes + line, _MM_HINT_T0);
    if (format == WeightFormat::fp4) _mm_prefetch(scales_ahead + s * 64, _MM_HINT_T0);
    stream_step<format, W, R, true>(t, row, s, step, x, x_stride, sum);
  }
  if (whole * step < m.in)
    stream_step<format, W, R, false>(t, row, whole, m.in - whole * step, x, x_stride, sum);

  __m512 all[16];
  for (int j = 0; j < 16; ++j) all[j] = j < W * R ? sum[j / R][j % R] : _mm512_setzero_ps();
  alignas(64) float sums[16];
  _mm512_store_ps(sums, reduce16(all));
  for (int i = 0; i < W; ++i) {
    const bool nan = found_nan(format, row[i]);
    for (int r = 0; r < R; ++r) out[r * out_stride + i] = nan ? __builtin_nanf("") : sums[i * R + r];
  }
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

// W panel rows times R input rows.
template <int W, int R>
FATHOM_INLINE void panel_tile(const uint16_t* panel, int64_t panel_stride, int64_t columns, const uint16_t* x,
                              int64_t x_stride, float* out, int64_t out_stride) {
  __m512 sum[R][W];
  for (int r = 0; r < R; ++r)
    for (int i = 0; i < W; ++i) sum[r][i] = _mm512_setzero_ps();
  for (int64_t k = 0; k < columns; k += 32) {
    __m512i v[R];
    for (int r = 0; r < R; ++r) v[r] = _mm512_load_si512(x + r * x_stride + k);
    for (int i = 0; i < W; ++i) {
      const __m512i w = _mm512_load_si512(panel + i * panel_stride + k);
      for (int r = 0; r < R; ++r) sum[r][i] = dot(sum[r][i], w, v[r]);
    }
  }
  for (int first = 0; first < R * W; first += 16) {
    __m512 all[16];
    for (int j = 0; j < 16; ++j)
      all[j] = first + j < R * W ? sum[(first + j) / W][(first + j) % W] : _mm512_setzero_ps();
    alignas(64) float sums[16];
    _mm512_store_ps(sums, reduce16(all));
    for (int j = 0; j < 16 && first + j < R * W; ++j)
      out[(first + j) / W * out_stride + (first + j) % W] = sums[j];
  }
}

constexpr int panel_rows = 24;  // 250 KB at 5120 columns: half of a small L2
constexpr int tile_w = 6;
constexpr int tile_r = 4;

template <int W>
FATHOM_INLINE void panel_strip(const uint16_t* panel, int64_t panel_stride, int64_t columns,
                               const uint16_t* x, int64_t x_stride, int64_t rows, float* out,
                               int64_t out_stride) {
  switch (rows) {
    case 1:
      return panel_tile<W, 1>(panel, panel_stride, columns, x, x_stride, out, out_stride);
    case 2:
      return panel_tile<W, 2>(panel, panel_stride, columns, x, x_stride, out, out_stride);
    case 3:
      return panel_tile<W, 3>(panel, panel_stride, columns, x, x_stride, out, out_stride);
    default:
      return panel_tile<W, 4>(panel, panel_stride, columns, x, x_stride, out, out_stride);
  }
}

void panel_product(const uint16_t* panel, int64_t panel_stride, int64_t num_w, int64_t columns,
                   const ArrangedRows& x, float* out, int64_t out_stride) {
  for (int64_t r = 0; r < x.rows; r += tile_r) {
    const int64_t rows = x.rows - r < tile_r ? x.rows - r : tile_r;
    const uint16_t* v = x.data + r * x.block_stride;
    float* o = out + r * out_stride;
    int64_t i = 0;
    for (; i + tile_w <= num_w; i += tile_w)
      panel_strip<tile_w>(panel + i * panel_stride, panel_stride, columns, v, x.block_stride, rows, o + i,
                          out_stride);
    for (; i < num_w; ++i)
      panel_strip<1>(panel + i * panel_stride, panel_stride, columns, v, x.block_stride, rows, o + i,
                     out_stride);
  }
}

// ---- The product ----

void arrange(WeightFormat format, const uint16_t* const* rows, int64_t, int64_t in, uint16_t* out) {
  arrange_row(format, rows[0], in, out);
}

// Working memory: the lowering of a few rows, then the panel with a row for unpack_unusual at its end.
constexpr int lowering_rows = 8;
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
      kind = prepare_scales(scale_row(work.m, first + i), work.m.in / 32, work.lowering[0]);
    work.nan |= kind == Scales::nan;
    if (kind == Scales::usual)
      unpack_row<format>(t, work.m, first + i, work.lowering[0], work.panel_row(i));
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

// W weight rows at a time.
template <WeightFormat format, int W, int R>
FATHOM_INLINE void multiply_few(Work& work, int64_t first, int64_t num_out, const ArrangedRows& x, float* out,
                                int64_t out_stride) {
  const Lookup t = load_tables();
  int64_t o = 0;
  for (; o + W <= num_out; o += W) {
    const uint16_t* lowering[W] = {};
    bool usual = true;
    for (int i = 0; i < W && format != WeightFormat::bf16; ++i) {
      const int64_t row = first + o + i;
      if (i > 0 && row % work.m.rows_per_scale != 0) {
        lowering[i] = lowering[i - 1];
        continue;
      }
      const Scales kind = prepare_scales(scale_row(work.m, row), work.m.in / 32, work.lowering[i]);
      lowering[i] = work.lowering[i];
      usual &= kind == Scales::usual;
      work.nan |= kind == Scales::nan;
    }
    if (usual)
      stream<format, W, R>(t, work.m, first + o, x.data, x.block_stride, lowering, out + o, out_stride);
    else
      multiply_panels<format>(work, first + o, W, x, out + o, out_stride);
  }
  if (o < num_out) multiply_panels<format>(work, first + o, num_out - o, x, out + o, out_stride);
}

template <WeightFormat format>
bool multiply_format(const StoredMatrix& m, int64_t first, int64_t num_out, const ArrangedRows& x, float* out,
                     int64_t out_stride, uint8_t* memory) {
  Work work(m, memory);
  switch (x.rows) {
    case 0:
      break;
    case 1:
      multiply_few<format, 8, 1>(work, first, num_out, x, out, out_stride);
      break;
    case 2:
      multiply_few<format, 8, 2>(work, first, num_out, x, out, out_stride);
      break;
    case 3:
      multiply_few<format, 4, 3>(work, first, num_out, x, out, out_stride);
      break;
    case 4:
      multiply_few<format, 4, 4>(work, first, num_out, x, out, out_stride);
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
