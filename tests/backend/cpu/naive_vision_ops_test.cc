// The vision tower's operations against naive twins written here, for one thread and for several.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "backend/cpu/cpu_ops.h"
#include "tests/support/tensors.h"

namespace fathom {
namespace {

using testing::as_floats;
using testing::bf16_tensor;
using testing::HostTensor;

std::vector<float> normals(std::mt19937& random, int64_t n, float scale = 1) {
  std::normal_distribution<float> normal;
  std::vector<float> out(static_cast<size_t>(n));
  for (float& v : out) v = round_bf16(normal(random) * scale);
  return out;
}

float rounded(long double v) { return round_bf16(static_cast<float>(static_cast<double>(v))); }

TEST(Linear, TheBiasJoinsTheSumBeforeItsRounding) {
  // 1 + 2^-9 alone would be rounded to 1, and 1 + 2^-8 then to 1 again (a tie to even).
  const auto in = bf16_tensor({1, 2}, {1.0f, 0x1p-9f});
  const HostTensor<float> weight({2, 2}, {1, 1, 1, 1});
  const HostTensor<float> bias({2}, {0x1p-8f, 0.0f});
  HostTensor<bf16> out({1, 2});
  const auto ops = make_exact_cpu_ops(1);
  ASSERT_TRUE(ops->linear(
      {.in = in.view(), .weight = {weight.view(), {}, {}}, .bias = bias.view(), .out = out.ref()}));
  EXPECT_EQ(as_floats(out), (std::vector<float>{1 + 0x1p-7f, 1.0f}));
}

TEST(PlaceRows, IntoEveryCopy) {
  std::mt19937 random(1);
  constexpr int64_t rows = 37;
  constexpr int64_t dim = 5;
  const HostTensor<float> from({rows, dim}, normals(random, rows * dim));
  HostTensor<bf16> stream({rows, 3, dim});
  make_exact_cpu_ops(3)->place_rows({.rows = from.view(), .stream = stream.ref()});
  const std::vector<float> got = as_floats(stream);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], from.values[i / (3 * dim) * dim + i % dim]);
}

// q and k turn in the plane (i, i + half) by angles of the row, then of the column; v does not turn.
TEST(PatchRope, AgainstDefinition) {
  std::mt19937 random(2);
  constexpr int64_t patches = 23;
  constexpr int64_t heads = 3;
  constexpr int64_t dim = 12;
  constexpr int64_t half = dim / 2;
  constexpr int64_t first = 9;
  constexpr int64_t columns = 7;
  const std::vector<float> in = normals(random, patches * 3 * heads * dim);
  for (const int threads : {1, 3}) {
    auto qkv = bf16_tensor({patches, 3, heads, dim}, in);
    make_exact_cpu_ops(threads)->patch_rope(
        {.qkv = qkv.ref(), .first_patch = first, .patch_cols = columns, .theta = 100});
    const std::vector<float> got = as_floats(qkv);
    for (int64_t at = 0; at < patches * 3 * heads; ++at) {
      const int64_t patch = first + at / (3 * heads);
      const bool turned = at % (3 * heads) < 2 * heads;
      for (int64_t i = 0; i < half; ++i) {
        const int64_t place = i < half / 2 ? patch / columns : patch % columns;
        const double angle =
            static_cast<double>(place) * std::pow(100.0, -2.0 * static_cast<double>(i % (half / 2)) / half);
        const auto cosine = static_cast<float>(std::cos(angle));
        const auto sine = static_cast<float>(std::sin(angle));
        const float a = in[static_cast<size_t>(at * dim + i)];
        const float b = in[static_cast<size_t>(at * dim + half + i)];
        const float x = got[static_cast<size_t>(at * dim + i)];
        const float y = got[static_cast<size_t>(at * dim + half + i)];
        EXPECT_EQ(x, turned ? round_bf16(a * cosine - b * sine) : a) << at << " " << i;
        EXPECT_EQ(y, turned ? round_bf16(b * cosine + a * sine) : b) << at << " " << i;
      }
    }
  }
}

TEST(PatchAttention, AgainstDefinition) {
  std::mt19937 random(3);
  constexpr int64_t heads = 2;
  constexpr int64_t dim = 20;
  const auto ops = make_exact_cpu_ops(3);
  for (const int64_t patches : {1, 6, 131}) {
    const std::vector<float> in = normals(random, patches * 3 * heads * dim, 2);
    const auto qkv = bf16_tensor({patches, 3, heads, dim}, in);
    const auto at = [&](int64_t patch, int64_t part, int64_t head, int64_t d) {
      return static_cast<long double>(in[static_cast<size_t>(((patch * 3 + part) * heads + head) * dim + d)]);
    };
    const int64_t first = patches / 3;
    HostTensor<bf16> out({patches - first, heads, dim});
    ops->patch_attention({.qkv = qkv.view(), .first_query = first, .out = out.ref()});
    for (int64_t q = first; q < patches; ++q) {
      for (int64_t h = 0; h < heads; ++h) {
        std::vector<long double> weights;
        for (int64_t k = 0; k < patches; ++k) {
          long double score = 0;
          for (int64_t d = 0; d < dim; ++d) score += at(q, 0, h, d) * at(k, 1, h, d);
          weights.push_back(score / std::sqrt(static_cast<long double>(dim)));
        }
        const long double largest = *std::max_element(weights.begin(), weights.end());
        long double total = 0;
        for (long double& w : weights) total += w = std::exp(w - largest);
        for (int64_t d = 0; d < dim; ++d) {
          long double sum = 0;
          for (int64_t k = 0; k < patches; ++k) sum += weights[static_cast<size_t>(k)] * at(k, 2, h, d);
          EXPECT_EQ(to_float(out.values[static_cast<size_t>(((q - first) * heads + h) * dim + d)]),
                    rounded(sum / total))
              << patches << " patches, query " << q << ", head " << h;
        }
      }
    }
  }
}

TEST(Elementwise, AgainstDefinition) {
  std::mt19937 random(4);
  constexpr int64_t rows = 19;
  constexpr int64_t dim = 11;
  const std::vector<float> a = normals(random, rows * dim, 3);
  const std::vector<float> b = normals(random, rows * dim, 3);
  std::vector<float> gate_up;
  for (int64_t r = 0; r < rows; ++r) {
    gate_up.insert(gate_up.end(), a.begin() + r * dim, a.begin() + (r + 1) * dim);
    gate_up.insert(gate_up.end(), b.begin() + r * dim, b.begin() + (r + 1) * dim);
  }
  const auto ops = make_exact_cpu_ops(2);
  auto sum = bf16_tensor({rows, dim}, a);
  const auto y = bf16_tensor({rows, dim}, b);
  ops->add({.y = y.view(), .x = sum.ref()});
  HostTensor<bf16> gated({rows, dim});
  const auto both = bf16_tensor({rows, 2 * dim}, gate_up);
  ops->gated_silu({.gate_up = both.view(), .out = gated.ref()});
  auto activated = bf16_tensor({rows, dim}, a);
  ops->gelu({.x = activated.ref()});
  for (size_t i = 0; i < a.size(); ++i) {
    const long double v = a[i];
    EXPECT_EQ(to_float(sum.values[i]), round_bf16(a[i] + b[i]));
    EXPECT_EQ(to_float(gated.values[i]), round_bf16(rounded(v / (1 + std::exp(-v))) * b[i]));
    EXPECT_EQ(to_float(activated.values[i]), rounded(v / 2 * (1 + std::erf(v / std::sqrt(2.0L)))));
  }
}

// Cells that reach over the edge, in parts of the image and as a whole.
TEST(GatherCells, AgainstDefinition) {
  std::mt19937 random(5);
  constexpr int64_t dim = 4;
  const auto ops = make_exact_cpu_ops(3);
  for (const auto& [rows, columns, ratio] : std::vector<std::array<int64_t, 3>>{
           {7, 11, 3}, {6, 9, 3}, {1, 1, 3}, {5, 4, 2}, {3, 5, 1}, {2, 8, 5}}) {
    const std::vector<float> in = normals(random, rows * columns * dim);
    const auto patches = bf16_tensor({rows * columns, dim}, in);
    const int64_t cell_columns = (columns + ratio - 1) / ratio;
    const int64_t cells = (rows + ratio - 1) / ratio * cell_columns;
    for (const int64_t first : {int64_t{0}, cells / 2}) {
      HostTensor<bf16> out({cells - first, dim * ratio * ratio});
      ops->gather_cells({.patches = patches.view(),
                         .patch_cols = columns,
                         .ratio = ratio,
                         .first_cell = first,
                         .out = out.ref()});
      auto got = out.values.begin();
      for (int64_t cell = first; cell < cells; ++cell)
        for (int64_t c = 0; c < dim; ++c)
          for (int64_t y = cell / cell_columns * ratio; y < (cell / cell_columns + 1) * ratio; ++y)
            for (int64_t x = cell % cell_columns * ratio; x < (cell % cell_columns + 1) * ratio; ++x)
              EXPECT_EQ(to_float(*got++),
                        y < rows && x < columns ? in[static_cast<size_t>((y * columns + x) * dim + c)] : 0.0f)
                  << cell << " " << c << " " << y << " " << x;
    }
  }
}

}  // namespace
}  // namespace fathom
