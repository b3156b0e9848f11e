// Embedding and single-pass hyper-connections (spec 1).
#include <vector>

#include "backend/cpu/kernels.h"
#include "tensor/weight.h"

namespace fathom::cpu {
namespace {

constexpr int64_t max_copies = 16;

std::vector<float> floats_of(const TensorView& t) {
  std::vector<float> out(static_cast<size_t>(t.shape.elements()));
  load_floats(t, 0, t.shape.elements(), out.data());
  return out;
}

}  // namespace

void embed(const Context& context, const EmbedParams& p) {
  const int64_t rows = p.stream.shape[0];
  const int64_t copies = p.stream.shape[1];
  const int64_t dim = p.stream.shape[2];
  const int32_t* ids = elements<int32_t>(p.ids);
  bf16* stream = elements<bf16>(p.stream);
  float* pre = elements<float>(p.pre);
  context.pool.parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> row(static_cast<size_t>(dim));
    for (int64_t r = begin; r < end; ++r) {
      FATHOM_CHECK(ids[r] >= 0 && ids[r] < p.table.shape[0]);
      load_floats(p.table, ids[r] * dim, dim, row.data());
      for (int64_t c = 0; c < copies; ++c) {
        for (int64_t i = 0; i < dim; ++i)
          stream[(r * copies + c) * dim + i] = to_bf16(row[static_cast<size_t>(i)]);
        pre[r * copies + c] = c == 0 ? 1.0f : 0.0f;
      }
    }
  });
}

void place_rows(const Context& context, const PlaceRowsParams& p) {
  const int64_t rows = p.stream.shape[0];
  const int64_t copies = p.stream.shape[1];
  const int64_t dim = p.stream.shape[2];
  FATHOM_CHECK_EQ(p.rows.shape[0], rows);
  FATHOM_CHECK_EQ(p.rows.shape[1], dim);
  bf16* stream = elements<bf16>(p.stream);
  context.pool.parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> row(static_cast<size_t>(dim));
    for (int64_t r = begin; r < end; ++r) {
      load_floats(p.rows, r * dim, dim, row.data());
      for (int64_t c = 0; c < copies; ++c)
        for (int64_t i = 0; i < dim; ++i)
          stream[(r * copies + c) * dim + i] = to_bf16(row[static_cast<size_t>(i)]);
    }
  });
}

void hyper_split(const double* m, const float* scale, const float* base, int64_t hc, int64_t iters,
                 double eps, float* pre, float* post, float* comb) {
  for (int64_t i = 0; i < hc; ++i) {
    pre[i] = static_cast<float>(sigmoid(m[i] * scale[0] + base[i]) + eps);
    post[i] = static_cast<float>(2 * sigmoid(m[hc + i] * scale[1] + base[hc + i]));
  }
  double c[max_copies][max_copies];
  for (int64_t i = 0; i < hc; ++i) {
    double largest = -INFINITY;
    for (int64_t j = 0; j < hc; ++j) {
      const int64_t k = 2 * hc + i * hc + j;
      c[i][j] = m[k] * scale[2] + base[k];
      largest = std::max(largest, c[i][j]);
    }
    double sum = 0;
    for (int64_t j = 0; j < hc; ++j) sum += c[i][j] = std::exp(c[i][j] - largest);
    for (int64_t j = 0; j < hc; ++j) c[i][j] = c[i][j] / sum + eps;
  }
  const auto divide_rows = [&] {
    for (int64_t i = 0; i < hc; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < hc; ++j) sum += c[i][j];
      for (int64_t j = 0; j < hc; ++j) c[i][j] /= sum + eps;
    }
  };
  const auto divide_columns = [&] {
    for (int64_t j = 0; j < hc; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < hc; ++i) sum += c[i][j];
      for (int64_t i = 0; i < hc; ++i) c[i][j] /= sum + eps;
    }
  };
  divide_columns();
  for (int64_t k = 1; k < iters; ++k) {
    divide_rows();
    divide_columns();
  }
  for (int64_t i = 0; i < hc; ++i)
    for (int64_t j = 0; j < hc; ++j) comb[i * hc + j] = static_cast<float>(c[i][j]);
}

void hyper_mix(const Context& context, const HyperMixParams& p) {
  const int64_t rows = p.stream.shape[0];
  const int64_t hc = p.stream.shape[1];
  const int64_t flat = hc * p.stream.shape[2];
  const int64_t mixes = (2 + hc) * hc;
  FATHOM_CHECK_LE(hc, max_copies);
  FATHOM_CHECK_EQ(p.fn.shape[0], mixes);
  FATHOM_CHECK_EQ(p.fn.shape[1], flat);
  const std::vector<float> fn = floats_of(p.fn);
  const std::vector<float> base = floats_of(p.base);
  const std::vector<float> scale = floats_of(p.scale);
  std::vector<const float*> fn_rows(static_cast<size_t>(mixes));
  for (int64_t i = 0; i < mixes; ++i) fn_rows[static_cast<size_t>(i)] = fn.data() + i * flat;
  const bf16* stream = elements<bf16>(p.stream);
  context.pool.parallel_for(rows, 2, [&](int64_t begin, int64_t end) {
    std::vector<float> x(static_cast<size_t>(flat));
    std::vector<double> m(static_cast<size_t>(mixes));
    for (int64_t r = begin; r < end; ++r) {
      to_floats(stream + r * flat, flat, x.data());
      const float* input = x.data();
      context.kernels.dots(&input, 1, fn_rows.data(), mixes, flat, m.data());
      const double inverse = inverse_rms(context, x.data(), flat, p.norm_eps);
      for (double& v : m) v *= inverse;
      hyper_split(m.data(), scale.data(), base.data(), hc, p.sinkhorn_iters, p.hc_eps,
                  elements<float>(p.pre) + r * hc, elements<float>(p.post) + r * hc,
                  elements<float>(p.comb) + r * hc * hc);
    }
  });
}

void collapse_norm(const Context& context, const CollapseNormParams& p) {
  const int64_t rows = p.stream.shape[0];
  const int64_t hc = p.stream.shape[1];
  const int64_t dim = p.stream.shape[2];
  const std::vector<float> weight = p.weight.empty() ? std::vector<float>{} : floats_of(p.weight);
  const bf16* stream = elements<bf16>(p.stream);
  const float* pre = elements<float>(p.pre);
  bf16* out = elements<bf16>(p.out);
  context.pool.parallel_for(rows, 4, [&](int64_t begin, int64_t end) {
    std::vector<float> x(static_cast<size_t>(dim));
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t i = 0; i < dim; ++i) {
        double sum = 0;
        for (int64_t c = 0; c < hc; ++c)
          sum += static_cast<double>(pre[r * hc + c]) *
                 static_cast<double>(to_float(stream[(r * hc + c) * dim + i]));
        x[static_cast<size_t>(i)] = to_float(to_bf16(sum));
      }
      if (weight.empty())
        std::transform(x.begin(), x.end(), out + r * dim, [](float v) { return to_bf16(v); });
      else
        rms_norm_row(context, x.data(), weight.data(), dim, p.norm_eps, out + r * dim);
    }
  });
}

void expand(const Context& context, const ExpandParams& p) {
  const int64_t rows = p.stream.shape[0];
  const int64_t hc = p.stream.shape[1];
  const int64_t dim = p.stream.shape[2];
  FATHOM_CHECK_LE(hc, max_copies);
  const bf16* y = elements<bf16>(p.y);
  const float* post = elements<float>(p.post);
  const float* comb = elements<float>(p.comb);
  bf16* stream = elements<bf16>(p.stream);
  context.pool.parallel_for(rows, 4, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      bf16* h = stream + r * hc * dim;
      for (int64_t i = 0; i < dim; ++i) {
        double copies[max_copies];
        for (int64_t c = 0; c < hc; ++c) copies[c] = static_cast<double>(to_float(h[c * dim + i]));
        const double value = static_cast<double>(to_float(y[r * dim + i]));
        for (int64_t j = 0; j < hc; ++j) {
          double mixed = 0;
          for (int64_t c = 0; c < hc; ++c)
            mixed += static_cast<double>(comb[(r * hc + c) * hc + j]) * copies[c];
          h[j * dim + i] = to_bf16(static_cast<double>(post[r * hc + j]) * value + mixed);
        }
      }
    }
  });
}

}  // namespace fathom::cpu
