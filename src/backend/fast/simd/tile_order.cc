#include "backend/fast/simd/tile_order.h"

#include "backend/fast/simd/by_format.h"
#include "backend/fast/simd/transpose_avx512.h"
#include "backend/fast/simd/unpack_avx512.h"

namespace fathom::fast::avx512::tile_order {
namespace {

constexpr int64_t block = 32;                     // columns of a tile product
constexpr int64_t lanes = group_columns / block;  // of a register
constexpr int64_t pairs = block / 2;              // in a block
constexpr int64_t outs = 16;                      // whose partial sums are added up together
constexpr int64_t streams = 4;                    // they come from, each contiguous in memory
constexpr int64_t rows_of_stream = outs / streams;
constexpr int64_t prefetch_bytes = 2048;  // ahead of reading

template <WeightFormat format>
constexpr int64_t group_bytes = group_columns / step* step_bytes<format>;

// Of MXCSR: subnormal operands and results are zero, as tiles have them.
constexpr unsigned flush_subnormals = 0x8040;

// ---- Input rows ----

// A group's blocks are in the lanes where transposing their codes (below) leaves them.
template <WeightFormat format>
constexpr int lane_of_block(int b) {
  switch (format) {
    case WeightFormat::fp4:
      return 4 * (b % 4) + b / 4;
    case WeightFormat::fp8:
      return 4 * (2 * (b / 8) + b % 2) + b / 2 % 4;
    case WeightFormat::bf16:
      break;
  }
  return b;
}

template <WeightFormat format>
FATHOM_INLINE void arrange_format(const uint16_t* x, int64_t in, float* out) {
  const __m512i odd = _mm512_set1_epi32(static_cast<int>(0xFFFF0000u));
  for (int64_t k = 0; k < in; k += group_columns) {
    __m512i v[lanes];
    for (int b = 0; b < lanes; ++b) {
      const __m512i columns =
          tile_columns<format>(_mm512_maskz_loadu_epi16(first_words(in - k - b * block), x + k + b * block));
      v[lane_of_block<format>(b)] = format == WeightFormat::bf16 ? columns : clear_tiny(columns);
    }
    transpose_16x16(v);
    for (int p = 0; p < pairs; ++p, out += 2 * lanes) {
      _mm512_store_si512(out, _mm512_slli_epi32(v[p], 16));
      _mm512_store_si512(out + lanes, _mm512_and_si512(v[p], odd));
    }
  }
}

template <WeightFormat format>
FATHOM_INLINE void restore_format(const float* x, int64_t in, uint16_t* out) {
  const auto* bits = reinterpret_cast<const uint32_t*>(x);
  for (int64_t k = 0; k < row_values(in); k += group_columns)
    for (int b = 0; b < lanes; ++b)
      for (int place = 0; place < block; ++place)
        out[k + b * block + place] =
            static_cast<uint16_t>(bits[k + place * lanes + lane_of_block<format>(b)] >> 16);
}

// ---- Weights: lanes are blocks ----

// 64 bytes of a row from byte `at` of a group that has `left` bytes.
template <bool whole>
FATHOM_INLINE __m512i load_codes(const uint8_t* codes, int64_t at, int64_t left) {
  return whole ? _mm512_loadu_si512(codes + at) : _mm512_maskz_loadu_epi8(first_bytes(left - at), codes + at);
}

// Of R input rows, in a block's even and odd places.
template <int R>
struct Chains {
  __m512 even[R], odd[R];

  FATHOM_INLINE_MEMBER Chains() {
    for (int r = 0; r < R; ++r) even[r] = odd[r] = _mm512_setzero_ps();
  }
  // Pair `k` of every block.
  FATHOM_INLINE_MEMBER void add(int64_t k, __m512 w_even, __m512 w_odd, const float* x, int64_t x_stride) {
    const float* of_pair = x + k * 2 * lanes;
    for (int r = 0; r < R; ++r, of_pair += x_stride) {
      even[r] = _mm512_fmadd_ps(w_even, _mm512_load_ps(of_pair), even[r]);
      odd[r] = _mm512_fmadd_ps(w_odd, _mm512_load_ps(of_pair + lanes), odd[r]);
    }
  }
  FATHOM_INLINE_MEMBER void add_pairs(int64_t k, __m512i w, const float* x, int64_t x_stride) {
    add(k, _mm512_castsi512_ps(_mm512_slli_epi32(w, 16)),
        _mm512_castsi512_ps(_mm512_and_si512(w, _mm512_set1_epi32(static_cast<int>(0xFFFF0000u)))), x,
        x_stride);
  }
};

template <bool whole, int R>
FATHOM_INLINE void add_fp4(const uint8_t* codes, int64_t left, const float* x, int64_t x_stride,
                           Chains<R>& sum) {
  const __m512 table = _mm512_setr_ps(0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6);
  __m512i a[4], z[4];
  for (int i = 0; i < 4; ++i) a[i] = load_codes<whole>(codes, 64 * i, left);
  transpose_dwords(a, z);
#pragma GCC unroll 4
  for (unsigned m = 0; m < 4; ++m)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j)
      sum.add(static_cast<int64_t>(4 * m) + j, _mm512_permutexvar_ps(_mm512_srli_epi32(z[j], 4 * m), table),
              _mm512_permutexvar_ps(_mm512_srli_epi32(z[j], 4 * m + 16), table), x, x_stride);
}

template <bool whole, int R>
FATHOM_INLINE void add_fp8(const Lookup& t, const uint8_t* codes, int64_t left, const float* x,
                           int64_t x_stride, Chains<R>& sum) {
  // Both pairs of a dword apart: those of the low ones first.
  const __m512i apart =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
  __m512i a[8], low[4], high[4];
  for (int i = 0; i < 8; ++i) a[i] = load_codes<whole>(codes, 64 * i, left);
  transpose_dwords(a, low);
  transpose_dwords(a + 4, high);
#pragma GCC unroll 8
  for (int d = 0; d < 8; ++d) {
    const __m512i z = d < 4 ? _mm512_shuffle_i32x4(low[d], high[d], 0x88)
                            : _mm512_shuffle_i32x4(low[d - 4], high[d - 4], 0xDD);
    __m512i w[2];
    unpack_fp8_half(t, _mm512_shuffle_epi8(z, apart), w);
    sum.add_pairs(2 * d, w[0], x, x_stride);
    sum.add_pairs(2 * d + 1, w[1], x, x_stride);
  }
}

template <bool whole, int R>
FATHOM_INLINE void add_bf16(const uint8_t* codes, int64_t left, const float* x, int64_t x_stride,
                            Chains<R>& sum) {
  __m512i w[lanes];
  for (int i = 0; i < lanes; ++i) w[i] = load_codes<whole>(codes, 64 * i, left);
  transpose_16x16(w);
  for (int k = 0; k < pairs; ++k) sum.add_pairs(k, w[k], x, x_stride);
}

// Scales of a group's blocks, as f32 in their lanes; there are `count`.
template <WeightFormat format>
FATHOM_INLINE __m512 lane_scales(const uint8_t* scales, int64_t count, __m128i order) {
  if constexpr (format == WeightFormat::bf16) return _mm512_set1_ps(1);
  const __m128i codes = _mm_maskz_loadu_epi8(static_cast<__mmask16>(first_bytes(count)), scales);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm_shuffle_epi8(codes, order)), 23));
}

template <WeightFormat format>
FATHOM_INLINE __m128i lane_order() {
  alignas(16) uint8_t order[16];
  for (int i = 0; i < lanes; ++i) order[lane_of_block<format>(i)] = static_cast<uint8_t>(i);
  return _mm_load_si128(reinterpret_cast<const __m128i*>(order));
}

// One weight row's group times R input rows: what every block adds to the result, to of_blocks[r].
template <WeightFormat format, bool whole, int R>
FATHOM_INLINE void group_sums(const Lookup& t, __m128i order, const uint8_t* codes, const uint8_t* scales,
                              int64_t columns, const float* x, int64_t x_stride, __m512* of_blocks) {
  Chains<R> sum;
  const int64_t left = columns * group_bytes<format> / group_columns;
  for (int64_t line = 0; line < group_bytes<format>; line += 64)
    _mm_prefetch(codes + prefetch_bytes + line, _MM_HINT_T0);
  if constexpr (format == WeightFormat::fp4)
    add_fp4<whole, R>(codes, left, x, x_stride, sum);
  else if constexpr (format == WeightFormat::fp8)
    add_fp8<whole, R>(t, codes, left, x, x_stride, sum);
  else
    add_bf16<whole, R>(codes, left, x, x_stride, sum);
  const __m512 scale = lane_scales<format>(scales, whole ? lanes : columns / block, order);
  for (int r = 0; r < R; ++r) {
    const __m512 both = _mm512_add_ps(sum.even[r], sum.odd[r]);
    of_blocks[r] = format == WeightFormat::bf16 ? both : _mm512_mul_ps(both, scale);
  }
}

// ---- Results ----

// Sums of 16 outputs of one input row, from what their blocks add: of_blocks [groups, outs, R].
template <WeightFormat format, int R>
FATHOM_INLINE __m512 add_blocks(const __m512* of_blocks, int64_t groups) {
  __m512 sum = _mm512_setzero_ps();
  for (int64_t g = 0; g < groups; ++g) {
    __m512i v[outs];
    for (int64_t i = 0; i < outs; ++i) v[i] = _mm512_castps_si512(of_blocks[(g * outs + i) * R]);
    transpose_16x16(v);
#pragma GCC unroll 16
    for (int b = 0; b < lanes; ++b)
      sum = _mm512_add_ps(sum, _mm512_castsi512_ps(v[lane_of_block<format>(b)]));
  }
  return sum;
}

// Weight rows first + stream * length + i, for i in [0, 4), of which there are `count` in all.
struct Sixteen {
  int64_t first;
  int64_t length;
  int64_t count;
  int64_t row(int64_t o) const { return first + o / rows_of_stream * length + o % rows_of_stream; }
};

template <WeightFormat format, int R>
FATHOM_INLINE void multiply_sixteen(const StoredMatrix& m, const Sixteen& of, const float* x,
                                    int64_t x_stride, __m512* of_blocks, __m512* sums) {
  const Lookup t = load_tables();
  const __m128i order = lane_order<format>();
  const int64_t groups = x_stride / group_columns;
  const int64_t whole = m.in / group_columns;
  for (int64_t i = 0; i < rows_of_stream; ++i) {
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t o = i; o < outs; o += rows_of_stream) {
        __m512* to = of_blocks + (g * outs + o) * R;
        if (o >= of.count) {
          for (int r = 0; r < R; ++r) to[r] = _mm512_setzero_ps();
          continue;
        }
        const int64_t row = of.row(o);
        const uint8_t* codes = m.codes + row * m.code_stride + g * group_bytes<format>;
        const uint8_t* scales = format == WeightFormat::bf16 ? nullptr : scale_row(m, row) + g * lanes;
        if (g < whole)
          group_sums<format, true, R>(t, order, codes, scales, group_columns, x + g * group_columns, x_stride,
                                      to);
        else
          group_sums<format, false, R>(t, order, codes, scales, m.in - g * group_columns,
                                       x + g * group_columns, x_stride, to);
      }
    }
  }
  for (int r = 0; r < R; ++r) sums[r] = add_blocks<format, R>(of_blocks + r, groups);
}

// Not inlined: nothing of it must move out of what flushes subnormals.
template <WeightFormat format, int R>
[[gnu::noinline]] void multiply_rows(const StoredMatrix& m, int64_t first, int64_t num_out, const float* x,
                                     float* out, int64_t out_stride, uint8_t* memory) {
  auto* of_blocks = reinterpret_cast<__m512*>(memory);
  const int64_t length = num_out / outs * rows_of_stream;
  const int64_t together = length * streams;
  __m512 sums[R];
  for (int64_t o = 0; o < length; o += rows_of_stream) {
    multiply_sixteen<format, R>(m, {first + o, length, outs}, x, row_values(m.in), of_blocks, sums);
    for (int r = 0; r < R; ++r) {
      alignas(64) float values[outs];
      _mm512_store_ps(values, sums[r]);
      for (int64_t s = 0; s < streams; ++s)
        _mm_storeu_ps(out + r * out_stride + s * length + o, _mm_load_ps(values + s * rows_of_stream));
    }
  }
  if (together == num_out) return;
  const int64_t rest = num_out - together;
  multiply_sixteen<format, R>(m, {first + together, rows_of_stream, rest}, x, row_values(m.in), of_blocks,
                              sums);
  for (int r = 0; r < R; ++r)
    _mm512_mask_storeu_ps(out + r * out_stride + together, static_cast<__mmask16>(first_words(rest)),
                          sums[r]);
}

template <WeightFormat format>
bool multiply_format(const StoredMatrix& m, int64_t first, int64_t num_out, const float* x, int64_t rows,
                     float* out, int64_t out_stride, uint8_t* memory) {
  if (format != WeightFormat::bf16 && check_rows(m, first, num_out) != Scales::usual) return false;
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | flush_subnormals);
  switch (rows) {
    case 1:
      multiply_rows<format, 1>(m, first, num_out, x, out, out_stride, memory);
      break;
    case 2:
      multiply_rows<format, 2>(m, first, num_out, x, out, out_stride, memory);
      break;
    case 3:
      multiply_rows<format, 3>(m, first, num_out, x, out, out_stride, memory);
      break;
    default:
      multiply_rows<format, 4>(m, first, num_out, x, out, out_stride, memory);
  }
  _mm_setcsr(before);
  return true;
}

}  // namespace

void arrange(WeightFormat format, const uint16_t* const* rows, int64_t count, int64_t in, float* out) {
  for (int64_t r = 0; r < count; ++r, out += row_values(in))
    by_format(format, [&]<WeightFormat f>() { arrange_format<f>(rows[r], in, out); });
}

void restore(WeightFormat format, const float* x, int64_t count, int64_t in, uint16_t* out) {
  for (int64_t r = 0; r < count; ++r, x += row_values(in), out += row_values(in))
    by_format(format, [&]<WeightFormat f>() { restore_format<f>(x, in, out); });
}

bool multiply(const StoredMatrix& m, int64_t first, int64_t num_out, const float* x, int64_t rows, float* out,
              int64_t out_stride, uint8_t* memory) {
  return by_format(m.format, [&]<WeightFormat f>() {
    return num_out == 0 || multiply_format<f>(m, first, num_out, x, rows, out, out_stride, memory);
  });
}

int64_t memory_bytes(int64_t in) {
  return row_values(in) / group_columns * outs * most_rows * static_cast<int64_t>(sizeof(__m512));
}

}  // namespace fathom::fast::avx512::tile_order
