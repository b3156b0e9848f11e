// Linear kernels for AMX-BF16: tiles of 16 weight rows times up to 16 input rows.
//
// A result adds, for every 32 columns, what one tile product gives (TDPBF16PS); its order of summation
// depends on neither the number of rows nor where a row stands in a tile, and tile_order.h has the same one
// for few rows. Weights are unpacked a slice of columns at a time, which stays in the first-level cache while
// all input rows use it; with many rows several strips take a slice in turn, so that the input's slice stays
// near, too.
#include "backend/fast/simd/by_format.h"
#include "backend/fast/simd/tile_order.h"
#include "backend/fast/simd/transpose_avx512.h"
#include "backend/fast/simd/unpack_avx512.h"

namespace fathom::fast::amx {
namespace {

constexpr int64_t tile_rows = 16;
constexpr int64_t tile_columns_of_row = 32;    // bf16
constexpr int64_t strip_rows = 2 * tile_rows;  // weight rows worked on together
constexpr int64_t slice = 512;                 // columns unpacked at a time: 32 KB for a strip
constexpr int64_t slice_stride = slice + 32;   // a line more: rows must not share sets
constexpr int64_t strip_weights = strip_rows * slice_stride;

// Bounds of what is worked on together, so that sums and input stay in a second-level cache.
constexpr int64_t most_rows = 512;
constexpr int64_t most_strips = 8;
constexpr int64_t block_sums = strip_rows * tile_rows;  // of a strip and a block of input rows

constexpr int64_t tile_bytes = 2 * strip_weights + static_cast<int64_t>(sizeof(float)) * most_strips *
                                                       (most_rows / tile_rows) * block_sums;

// Working memory of a worker: tile_bytes.
struct Work {
  uint16_t* weights;  // of a strip
  float* sums;        // [strips, blocks of input rows, strip_rows, tile_rows]

  explicit Work(uint8_t* memory)
      : weights(reinterpret_cast<uint16_t*>(memory)),
        sums(reinterpret_cast<float*>(weights + strip_weights)) {}
};

namespace few = avx512::tile_order;

// ---- Input rows: [columns / 2][width] pairs, so that a tile's row holds one pair of every input row ----

// Columns [k, k + step) of a row, in the order of a tile's weights.
template <WeightFormat format>
FATHOM_INLINE void arrange_step(const uint16_t* x, int64_t k, int64_t in, uint16_t* out) {
  for (int64_t i = 0; i < step; i += tile_columns_of_row) {
    const __m512i columns =
        tile_columns<format>(_mm512_maskz_loadu_epi16(first_words(in - k - i), x + k + i));
    _mm512_store_si512(out + i, format == WeightFormat::bf16 ? columns : clear_tiny(columns));
  }
}

// Rows of pairs, `stride` pairs apart, to `out`.
FATHOM_INLINE void store_pairs(const uint32_t* rows, int64_t stride, int64_t count, int64_t width,
                               uint32_t* out) {
  for (int64_t p = 0; p < count; ++p, out += width) {
    if (width == tile_rows) {
      __m512i v[tile_rows];
      for (int64_t r = 0; r < tile_rows; ++r) v[r] = _mm512_loadu_si512(rows + r * stride + p);
      transpose_16x16(v);
      for (int64_t r = 0; r < tile_rows; ++r) _mm512_store_si512(out + r * tile_rows, v[r]);
      p += tile_rows - 1;
      out += (tile_rows - 1) * width;
    } else {
      for (int64_t r = 0; r < width; ++r) out[r] = rows[r * stride + p];
    }
  }
}

void arrange(WeightFormat format, const uint16_t* const* rows, int64_t width, int64_t in, uint16_t* out) {
  if (width <= few::most_rows) return few::arrange(format, rows, width, in, reinterpret_cast<float*>(out));
  auto* pairs = reinterpret_cast<uint32_t*>(out);
  alignas(64) uint32_t part[tile_rows][step / 2];
  for (int64_t k = 0; k < in; k += step) {
    for (int64_t r = 0; r < width; ++r) {
      auto* to = reinterpret_cast<uint16_t*>(part[r]);
      if (rows[r] != nullptr)
        by_format(format, [&]<WeightFormat f>() { arrange_step<f>(rows[r], k, in, to); });
      else
        __builtin_memset(to, 0, sizeof(part[r]));
    }
    store_pairs(part[0], step / 2, step / 2, width, pairs + k / 2 * width);
  }
}

int64_t block_values(int64_t in) {
  const int64_t of_few = few::most_rows * few::row_values(in) * 2;  // they are f32
  const int64_t of_tiles = tile_rows * arranged_columns(in);
  return of_few > of_tiles ? of_few : of_tiles;
}

// ---- Weights ----

// Up to strip_rows weight rows.
template <WeightFormat format>
struct Strip {
  const StoredMatrix& m;
  int64_t first;
  int64_t count;
  bool* nan;  // [strip_rows]: met a NaN weight, kept from slice to slice
  bool usual[strip_rows];
  bool numbers = true;  // no NaN scale

  FATHOM_INLINE_MEMBER Strip(const StoredMatrix& matrix, int64_t first_row, int64_t rows, bool* nan_rows)
      : m(matrix), first(first_row), count(rows), nan(nan_rows) {
    for (int64_t i = 0; i < count; ++i) {
      usual[i] = true;
      if (format == WeightFormat::bf16) continue;
      if (i > 0 && (first + i) % m.rows_per_scale != 0) {
        usual[i] = usual[i - 1];
        continue;
      }
      const Scales kind = check_scales(scale_row(m, first + i), m.in / 32, smallest_scale, one_scale);
      numbers &= kind != Scales::nan;
      usual[i] = kind == Scales::usual;
    }
  }

  // Columns [k, k + columns) of row `i`. `ahead`: where to prefetch from, in bytes from what is read.
  FATHOM_INLINE_MEMBER void unpack(ScaledRow<format>& row, int64_t i, int64_t k, int64_t columns,
                                   int64_t ahead, uint16_t* out) {
    row.begin(m, first + i);
    for (int64_t end = k + columns; k < end; k += step, out += step) {
      const uint8_t* at = row.codes + k / step * step_bytes<format>;
      for (int64_t line = 0; line < step_bytes<format>; line += 64)
        _mm_prefetch(at + ahead + line, _MM_HINT_T0);
      __m512i w[4];
      if (k + step <= m.in)
        row.template load<true>(k / step, usual[i], w);
      else
        row.template load<false>(k / step, usual[i], w);
      if (format != WeightFormat::bf16) transpose_quarters(w);
      for (int j = 0; j < 4; ++j) _mm512_store_si512(out + 32 * j, w[j]);
    }
    if (format == WeightFormat::fp8) nan[i] |= row.found_nan();
  }
};

// ---- Tiles ----

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// g++ does not know that tile instructions read and write memory: between them and other accesses to the same
// memory this keeps both in their places.
FATHOM_INLINE void order_tiles() { asm volatile("" ::: "memory"); }

// 0 to 3: sums [16 weight rows, width]; 4, 5: weights; 6, 7: input pairs.
void configure(int64_t width) {
  TileConfig config;
  for (int i = 0; i < 8; ++i) {
    config.rows[i] = tile_rows;
    config.row_bytes[i] = static_cast<uint16_t>(i == 4 || i == 5 ? 64 : 4 * width);
  }
  order_tiles();
  _tile_loadconfig(&config);
}

// Adds a slice to the sums of a strip and one or two blocks of input rows.
template <bool two>
FATHOM_INLINE void tiles(const uint16_t* weights, const uint16_t* x, int64_t block_stride, int64_t width,
                         int64_t columns, bool begin, float* sums) {
  constexpr int64_t line = tile_rows * static_cast<int64_t>(sizeof(float));
  float* second = sums + strip_rows * tile_rows;
  if (begin) {
    _tile_zero(0);
    _tile_zero(1);
    if (two) {
      _tile_zero(2);
      _tile_zero(3);
    }
  } else {
    _tile_loadd(0, sums, line);
    _tile_loadd(1, sums + tile_rows * tile_rows, line);
    if (two) {
      _tile_loadd(2, second, line);
      _tile_loadd(3, second + tile_rows * tile_rows, line);
    }
  }
  for (int64_t k = 0; k < columns; k += tile_columns_of_row) {
    _tile_loadd(4, weights + k, slice_stride * 2);
    _tile_loadd(6, x + k * width, width * 4);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(5, weights + tile_rows * slice_stride + k, slice_stride * 2);
    _tile_dpbf16ps(1, 5, 6);
    if (two) {
      _tile_loadd(7, x + block_stride + k * width, width * 4);
      _tile_dpbf16ps(2, 4, 7);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, sums, line);
  _tile_stored(1, sums + tile_rows * tile_rows, line);
  if (two) {
    _tile_stored(2, second, line);
    _tile_stored(3, second + tile_rows * tile_rows, line);
  }
}

void strip_slice(const uint16_t* weights, const ArrangedRows& x, int64_t width, int64_t first,
                 int64_t columns, float* sums) {
  const int64_t blocks = (x.rows + tile_rows - 1) / tile_rows;
  order_tiles();
  int64_t b = 0;
  for (; b + 2 <= blocks; b += 2)
    tiles<true>(weights, x.data + b * x.block_stride + first * width, x.block_stride, width, columns,
                first == 0, sums + b * block_sums);
  if (b < blocks)
    tiles<false>(weights, x.data + b * x.block_stride + first * width, x.block_stride, width, columns,
                 first == 0, sums + b * block_sums);
  order_tiles();
}

// ---- The product ----

template <WeightFormat format>
FATHOM_INLINE void store_results(const Strip<format>& strip, const float* sums, int64_t rows, float* out,
                                 int64_t out_stride) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* of_row = sums + r / tile_rows * block_sums + r % tile_rows;
    for (int64_t i = 0; i < strip.count; ++i)
      out[r * out_stride + i] = strip.nan[i] ? __builtin_nanf("") : of_row[i * tile_rows];
  }
}

// At most most_rows input rows and most_strips strips.
template <WeightFormat format>
FATHOM_INLINE bool multiply_group(const StoredMatrix& m, int64_t first, int64_t num_out,
                                  const ArrangedRows& x, const Work& work, float* out, int64_t out_stride) {
  const int64_t width = x.rows < tile_rows ? x.rows : tile_rows;
  const int64_t strip_sums = (x.rows + tile_rows - 1) / tile_rows * block_sums;
  const int64_t all = arranged_columns(m.in);
  // What is read next: the next strip's slice, or the same strip's next one.
  const int64_t ahead = num_out > strip_rows ? strip_rows * m.code_stride : slice / step * step_bytes<format>;
  ScaledRow<format> row;
  bool nan[most_strips][strip_rows] = {};
  bool numbers = true;
  for (int64_t k = 0; k < all; k += slice) {
    const int64_t columns = all - k < slice ? all - k : slice;
    for (int64_t o = 0, n = 0; o < num_out; o += strip_rows, ++n) {
      Strip<format> strip(m, first + o, num_out - o < strip_rows ? num_out - o : strip_rows, nan[n]);
      numbers &= strip.numbers;
      for (int64_t i = 0; i < strip.count; ++i)
        strip.unpack(row, i, k, columns, ahead, work.weights + i * slice_stride);
      strip_slice(work.weights, x, width, k, columns, work.sums + n * strip_sums);
      if (k + columns == all) store_results(strip, work.sums + n * strip_sums, x.rows, out + o, out_stride);
    }
  }
  return numbers;
}

template <WeightFormat format>
bool multiply_format(const StoredMatrix& m, int64_t first, int64_t num_out, const ArrangedRows& x, float* out,
                     int64_t out_stride, uint8_t* memory) {
  const Work work(memory);
  configure(x.rows < tile_rows ? x.rows : tile_rows);
  // A few rows are near anyway; their weights are read in the order in which they lie.
  const int64_t outs = x.rows <= 4 * tile_rows ? strip_rows : most_strips * strip_rows;
  bool numbers = true;
  for (int64_t r = 0; r < x.rows; r += most_rows) {
    const ArrangedRows some{x.data + r / tile_rows * x.block_stride, x.block_stride,
                            x.rows - r < most_rows ? x.rows - r : most_rows};
    for (int64_t o = 0; o < num_out; o += outs)
      numbers &= multiply_group<format>(m, first + o, num_out - o < outs ? num_out - o : outs, some, work,
                                        out + r * out_stride + o, out_stride);
  }
  _tile_release();
  return numbers;
}

// Few rows by tiles after all, for scales that the short way cannot take.
bool multiply_restored(const StoredMatrix& m, int64_t first, int64_t num_out, const ArrangedRows& x,
                       float* out, int64_t out_stride, uint8_t* memory) {
  const int64_t stride = few::row_values(m.in);
  auto* rows = reinterpret_cast<uint16_t*>(memory + tile_bytes);
  uint16_t* pairs = rows + few::most_rows * stride;
  few::restore(m.format, reinterpret_cast<const float*>(x.data), x.rows, m.in, rows);
  store_pairs(reinterpret_cast<const uint32_t*>(rows), stride / 2, stride / 2, x.rows,
              reinterpret_cast<uint32_t*>(pairs));
  return by_format(m.format, [&]<WeightFormat format>() {
    return multiply_format<format>(m, first, num_out, {pairs, 0, x.rows}, out, out_stride, memory);
  });
}

bool multiply(const StoredMatrix& m, int64_t first, int64_t num_out, const ArrangedRows& x, float* out,
              int64_t out_stride, uint8_t* memory) {
  if (x.rows == 0 || num_out == 0) return true;
  if (x.rows <= few::most_rows)
    return few::multiply(m, first, num_out, reinterpret_cast<const float*>(x.data), x.rows, out, out_stride,
                         memory) ||
           multiply_restored(m, first, num_out, x, out, out_stride, memory);
  return by_format(m.format, [&]<WeightFormat format>() {
    return multiply_format<format>(m, first, num_out, x, out, out_stride, memory);
  });
}

int64_t panel_bytes(int64_t in) {
  const int64_t restored = 2 * few::most_rows * few::row_values(in) * 2;  // rows and pairs
  const int64_t tiles = tile_bytes + restored;
  return tiles > few::memory_bytes(in) ? tiles : few::memory_bytes(in);
}

}  // namespace

const LinearKernels linear = {tile_rows,   strip_rows,  most_strips* strip_rows, arrange, multiply,
                              panel_bytes, block_values};

}  // namespace fathom::fast::amx
