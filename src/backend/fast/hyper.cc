// Embedding and single-pass hyper-connections (spec 1).
#include <cmath>
#include <cstring>

#include "backend/cpu/kernels.h"
#include "backend/fast/operations.h"
#include "backend/fast/weights.h"

namespace fathom::fast {

using cpu::elements;

namespace {

// `row` (bf16, maybe unaligned) to each of a stream row's copies.
void copy_row(const std::byte* row, int64_t copies, int64_t dim, bf16* stream) {
  for (int64_t c = 0; c < copies; ++c)
    std::memcpy(stream + c * dim, row, static_cast<size_t>(dim) * sizeof(bf16));
}

}  // namespace

void embed(const Context& context, const EmbedParams& p) {
  const int64_t copies = p.stream.shape[1];
  const int64_t dim = p.stream.shape[2];
  const int32_t* ids = elements<int32_t>(p.ids);
  bf16* stream = elements<bf16>(p.stream);
  float* pre = elements<float>(p.pre);
  FATHOM_CHECK(p.table.dtype == DType::bf16);
  context.pool.parallel_for(
      p.stream.shape[0], near_rows_per_item(copies * dim), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          FATHOM_CHECK(ids[r] >= 0 && ids[r] < p.table.shape[0]);
          copy_row(p.table.data + ids[r] * dim * 2, copies, dim, stream + r * copies * dim);
          for (int64_t c = 0; c < copies; ++c) pre[r * copies + c] = c == 0 ? 1.0f : 0.0f;
        }
      });
}

void place_rows(const Context& context, const PlaceRowsParams& p) {
  const int64_t copies = p.stream.shape[1];
  const int64_t dim = p.stream.shape[2];
  FATHOM_CHECK_EQ(p.rows.shape[0], p.stream.shape[0]);
  FATHOM_CHECK_EQ(p.rows.shape[1], dim);
  FATHOM_CHECK(p.rows.dtype == DType::bf16);
  bf16* stream = elements<bf16>(p.stream);
  context.pool.parallel_for(p.stream.shape[0], near_rows_per_item(copies * dim),
                            [&](int64_t begin, int64_t end) {
                              for (int64_t r = begin; r < end; ++r)
                                copy_row(p.rows.data + r * dim * 2, copies, dim, stream + r * copies * dim);
                            });
}

namespace {

constexpr int64_t max_mixes = (2 + max_copies) * max_copies;
constexpr int64_t chunk_columns = 2048;  // part of the order of the sums
constexpr int64_t block_rows = 16;       // that go over a chunk of the matrix together

struct MixShape {
  int64_t rows, copies, flat, mixes;
  int64_t chunks() const { return (flat + chunk_columns - 1) / chunk_columns; }
  int64_t blocks() const { return (rows + block_rows - 1) / block_rows; }
};

// partial: [chunks, rows, mixes + 1]. Chunk by chunk, so that a part of the matrix is read once for all rows.
void multiply_chunks(const Context& context, const MixShape& shape, const float* fn, const bf16* stream,
                     float* partial) {
  context.pool.parallel_for(shape.chunks() * shape.blocks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t chunk = item / shape.blocks();
      const int64_t column = chunk * chunk_columns;
      const int64_t row = item % shape.blocks() * block_rows;
      context.rows.mix_chunk(
          {fn + column, shape.mixes, shape.flat, std::min(chunk_columns, shape.flat - column)},
          stream + row * shape.flat + column, std::min(block_rows, shape.rows - row),
          partial + (chunk * shape.rows + row) * (shape.mixes + 1));
    }
  });
}

// What leaves the range of f32 on its way is computed as the exact path does.
void mix_slowly(const MixShape& shape, const float* fn, const bf16* x, double* m) {
  std::fill_n(m, shape.mixes + 1, 0.0);
  for (int64_t i = 0; i < shape.flat; ++i) {
    const auto v = static_cast<double>(to_float(x[i]));
    for (int64_t k = 0; k < shape.mixes; ++k) {
      float w;
      std::memcpy(&w, fn + k * shape.flat + i, sizeof(w));
      m[k] += v * static_cast<double>(w);
    }
    m[shape.mixes] += v * v;
  }
}

// One row's products and sum of squares, chunks in ascending order.
void add_chunks(const MixShape& shape, const float* partial, int64_t row, double* m) {
  std::fill_n(m, shape.mixes + 1, 0.0);
  for (int64_t chunk = 0; chunk < shape.chunks(); ++chunk) {
    const float* part = partial + (chunk * shape.rows + row) * (shape.mixes + 1);
    for (int64_t k = 0; k <= shape.mixes; ++k) m[k] += static_cast<double>(part[k]);
  }
}

}  // namespace

void hyper_mix(const Context& context, const HyperMixParams& p) {
  const MixShape shape{p.stream.shape[0], p.stream.shape[1], p.stream.shape[1] * p.stream.shape[2],
                       p.fn.shape[0]};
  FATHOM_CHECK_LE(shape.copies, max_copies);
  FATHOM_CHECK_EQ(shape.mixes, (2 + shape.copies) * shape.copies);
  FATHOM_CHECK_EQ(p.fn.shape[1], shape.flat);
  const float* fn = floats_of(context, p.fn, shape.mixes * shape.flat, Scratch::weights);
  float scale[3];
  float base[max_mixes];
  load_floats(p.scale, 0, 3, scale);
  load_floats(p.base, 0, shape.mixes, base);
  const bf16* stream = elements<bf16>(p.stream);
  auto* partial =
      context.scratch.take<float>(Scratch::partial, shape.chunks() * shape.rows * (shape.mixes + 1));
  multiply_chunks(context, shape, fn, stream, partial);

  float* pre = elements<float>(p.pre);
  float* post = elements<float>(p.post);
  float* comb = elements<float>(p.comb);
  context.pool.parallel_for(shape.rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      double m[max_mixes + 1];
      add_chunks(shape, partial, r, m);
      if (!(m[shape.mixes] <= 0x1p120)) mix_slowly(shape, fn, stream + r * shape.flat, m);
      const double inverse = 1.0 / std::sqrt(m[shape.mixes] / static_cast<double>(shape.flat) + p.norm_eps);
      for (int64_t k = 0; k < shape.mixes; ++k) m[k] *= inverse;
      const int64_t hc = shape.copies;
      if (hc == 4) {
        float narrow[24];
        for (int k = 0; k < 24; ++k) narrow[k] = static_cast<float>(m[k]);
        context.rows.mix_split4(narrow, scale, base, p.sinkhorn_iters, p.hc_eps, pre + r * 4, post + r * 4,
                                comb + r * 16);
      } else {
        cpu::hyper_split(m, scale, base, hc, p.sinkhorn_iters, p.hc_eps, pre + r * hc, post + r * hc,
                         comb + r * hc * hc);
      }
    }
  });
}

void collapse_norm(const Context& context, const CollapseNormParams& p) {
  const int64_t hc = p.stream.shape[1];
  const int64_t dim = p.stream.shape[2];
  const bool norm = !p.weight.empty();
  const float* weight = norm ? floats_of(context, p.weight, dim, Scratch::weights) : nullptr;
  const bf16* stream = elements<bf16>(p.stream);
  const float* pre = elements<float>(p.pre);
  bf16* out = elements<bf16>(p.out);
  context.pool.parallel_for(p.stream.shape[0], near_rows_per_item(hc * dim), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      bf16* row = out + r * dim;
      context.rows.collapse(stream + r * hc * dim, pre + r * hc, hc, dim, row);
      if (norm) context.rows.rms_norm(row, weight, dim, p.norm_eps, row);
    }
  });
}

void expand(const Context& context, const ExpandParams& p) {
  const int64_t hc = p.stream.shape[1];
  const int64_t dim = p.stream.shape[2];
  FATHOM_CHECK_LE(hc, max_copies);
  const bf16* y = elements<bf16>(p.y);
  const float* post = elements<float>(p.post);
  const float* comb = elements<float>(p.comb);
  bf16* stream = elements<bf16>(p.stream);
  context.pool.parallel_for(
      p.stream.shape[0], near_rows_per_item(2 * hc * dim), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
          context.rows.expand(y + r * dim, post + r * hc, comb + r * hc * hc, hc, dim, stream + r * hc * dim);
      });
}

void draft_feature(const Context& context, const DraftFeatureParams& p) {
  const int64_t copies = p.stream.shape[1];
  const int64_t dim = p.stream.shape[2];
  const int64_t columns = p.out.shape[1];
  FATHOM_CHECK_EQ(p.out.shape[0], p.stream.shape[0]);
  FATHOM_CHECK_LE(p.first_column + dim, columns);
  const bf16* stream = elements<bf16>(p.stream);
  bf16* out = elements<bf16>(p.out);
  context.pool.parallel_for(p.stream.shape[0], near_rows_per_item(copies * dim),
                            [&](int64_t begin, int64_t end) {
                              for (int64_t r = begin; r < end; ++r)
                                context.rows.mean_copies(stream + r * copies * dim, copies, dim,
                                                         out + r * columns + p.first_column);
                            });
}

}  // namespace fathom::fast
