// The vision tower's row-wise operations against the exact ones.
#include <gtest/gtest.h>

#include "tests/backend/fast/row_check.h"

namespace fathom::testing {
namespace {

// Sizes of every order, with the numbers that are none.
std::vector<bf16> wide_values(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<bf16> x = bf16_normals(random, n, 4);
  for (size_t i = 0; i < x.size(); i += 11) x[i] = to_bf16(to_float(x[i]) * std::ldexp(1.0f, -40));
  const float special[] = {0, -0.0f, INFINITY, -INFINITY, NAN, -9.5f, 9.5f, -30.0f, 3e38f, -3e38f};
  size_t at = 0;
  for (float v : special)
    if (3 * at < x.size()) x[3 * at++] = to_bf16(v);
  return x;
}

const int64_t dims[] = {1, 15, 32, 37, 1152};

TEST(VisionOps, Add) {
  for (int64_t dim : dims) {
    const std::vector<bf16> x = wide_values(7 * dim, 1);
    const std::vector<bf16> y = wide_values(7 * dim, 2);
    check_rows(
        7,
        [&](Ops& ops, int64_t first, int64_t count) {
          HostTensor<bf16> in({count, dim}, rows_of(y, first, count, dim));
          HostTensor<bf16> out({count, dim}, rows_of(x, first, count, dim));
          ops.add({in.view(), out.ref()});
          return floats(out.values);
        },
        0);
  }
}

TEST(VisionOps, GatedSilu) {
  for (int64_t dim : dims) {
    const std::vector<bf16> x = wide_values(7 * 2 * dim, 3);
    check_rows(7, [&](Ops& ops, int64_t first, int64_t count) {
      HostTensor<bf16> in({count, 2 * dim}, rows_of(x, first, count, 2 * dim));
      HostTensor<bf16> out({count, dim});
      ops.gated_silu({in.view(), out.ref()});
      return floats(out.values);
    });
  }
}

TEST(VisionOps, Gelu) {
  for (int64_t dim : dims) {
    const std::vector<bf16> x = wide_values(7 * dim, 4);
    check_rows(7, [&](Ops& ops, int64_t first, int64_t count) {
      HostTensor<bf16> out({count, dim}, rows_of(x, first, count, dim));
      ops.gelu({out.ref()});
      return floats(out.values);
    });
  }
}

// Far out on the left every value counts, not only the large ones. (There 1 + erf, as the exact path has it,
// loses its digits to the cancellation: compared with erfc.)
TEST(VisionOps, GeluOfEachNumber) {
  std::vector<bf16> x;
  for (int i = 0; i <= 1 << 15; ++i) x.push_back(to_bf16(-9.0f + 18.0f * static_cast<float>(i) / (1 << 15)));
  for (Isa isa : available_isas()) {
    HostTensor<bf16> out({1, static_cast<int64_t>(x.size())}, std::vector<bf16>(x));
    make_fast_cpu_ops(1, isa)->gelu({out.ref()});
    for (size_t i = 0; i < x.size(); ++i) {
      const auto v = static_cast<double>(to_float(x[i]));
      const double expected = v * 0.5 * std::erfc(-v / std::sqrt(2.0));
      ASSERT_NEAR(static_cast<double>(to_float(out.values[i])), expected, std::fabs(expected) * 0x1.02p-8)
          << v;
    }
  }
}

TEST(VisionOps, PatchRope) {
  for (auto [heads, dim] : {std::pair<int64_t, int64_t>{16, 72}, {2, 64}, {1, 8}, {3, 32}}) {
    const int64_t width = 3 * heads * dim;
    const std::vector<bf16> x = wide_values(23 * width, 5);
    check_rows(23, [&, h = heads, d = dim](Ops& ops, int64_t first, int64_t count) {
      HostTensor<bf16> out({count, 3, h, d}, rows_of(x, first, count, width));
      ops.patch_rope({out.ref(), 40 + first, 7, 10000});
      return floats(out.values);
    });
  }
}

TEST(VisionOps, GatherCells) {
  struct Image {
    int64_t rows, cols, dim, ratio;
  };
  for (const Image& image : {Image{6, 4, 8, 2}, {5, 7, 33, 3}, {1, 1, 1, 2}, {9, 9, 2, 9}}) {
    HostTensor<bf16> patches({image.rows * image.cols, image.dim},
                             wide_values(image.rows * image.cols * image.dim, 6));
    const auto up = [&](int64_t n) { return (n + image.ratio - 1) / image.ratio; };
    check_rows(
        up(image.rows) * up(image.cols),
        [&](Ops& ops, int64_t first, int64_t count) {
          HostTensor<bf16> out({count, image.dim * image.ratio * image.ratio});
          ops.gather_cells({patches.view(), image.cols, image.ratio, first, out.ref()});
          return floats(out.values);
        },
        0);
  }
}

TEST(VisionOps, PlaceRows) {
  const std::vector<bf16> x = wide_values(5 * 37, 7);
  for (bool f32 : {false, true}) {
    check_rows(
        5,
        [&](Ops& ops, int64_t first, int64_t count) {
          HostTensor<bf16> narrow({count, 37}, rows_of(x, first, count, 37));
          HostTensor<float> wide({count, 37}, floats(narrow.values));
          HostTensor<bf16> stream({count, 3, 37});
          ops.place_rows({f32 ? wide.view() : narrow.view(), stream.ref()});
          return floats(stream.values);
        },
        0);
  }
}

}  // namespace
}  // namespace fathom::testing
