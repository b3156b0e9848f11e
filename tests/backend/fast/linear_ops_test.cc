// Linear layers, routing and experts of the fast path against the exact ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "backend/fast/linear_kernels.h"
#include "backend/fast/scratch.h"
#include "tests/backend/fast/random_weight.h"
#include "tests/backend/fast/row_check.h"

namespace fathom::testing {
namespace {

using ::testing::HasSubstr;

constexpr DType formats[] = {DType::bf16, DType::e4m3, DType::e2m1x2};

void check_linear(DType format, int64_t rows, int64_t out, int64_t in) {
  SCOPED_TRACE(std::string(dtype_name(format)) + " " + std::to_string(rows) + " x " + std::to_string(in) +
               " to " + std::to_string(out));
  std::mt19937 random(static_cast<uint32_t>(in + out));
  const RandomWeight weight(format, out, in, static_cast<uint32_t>(in * 31 + out));
  const std::vector<bf16> x = bf16_normals(random, rows * in);
  const HostTensor<float> bias({out}, normals(random, out));
  check_rows(rows, [&](Ops& ops, int64_t first, int64_t count) {
    HostTensor<bf16> input({count, in}, rows_of(x, first, count, in));
    HostTensor<bf16> y({count, out});
    HostTensor<float> wide({count, out});
    EXPECT_TRUE(ops.linear({input.view(), weight.weight(), {}, wide.ref()}));
    EXPECT_TRUE(ops.linear({input.view(), weight.weight(), bias.view(), y.ref()}));
    std::vector<float> all;
    for (int64_t r = 0; r < count; ++r) {
      const std::vector<float> biased = floats(rows_of(y.values, r, 1, out));
      const std::vector<float> row = rows_of(wide.values, r, 1, out);
      all.insert(all.end(), biased.begin(), biased.end());
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  });
}

TEST(FastLinear, ShapesAndTails) {
  for (DType format : formats) {
    for (int64_t in : {32, 64, 96, 128, 160, 544}) check_linear(format, 5, 37, in);
    for (int64_t rows : {1, 2, 3, 4, 6, 15, 16, 17, 33, 50}) check_linear(format, rows, 100, 224);
    for (int64_t out : {1, 7, 8, 24, 31, 97, 512}) check_linear(format, 2, out, 160);
    check_linear(format, 3, 200, 2304);
    check_linear(format, 19, 50, 4448);  // several column blocks of a panel, the last one short
    check_linear(format, 1, 64, 5120);
  }
  // Plain weights may have any length.
  for (int64_t in : {1, 31, 588}) check_linear(DType::bf16, 5, 19, in);
}

// Scales that the kernels' short way cannot take give what the exact path gives.
TEST(FastLinear, UnusualScales) {
  for (DType format : {DType::e4m3, DType::e2m1x2}) {
    constexpr int64_t in = 160;
    constexpr int64_t out = 70;
    RandomWeight weight(format, out, in, 5);
    std::mt19937 random(6);
    for (size_t i = 0; i < weight.scales().size(); i += 7) weight.scales()[i] = i % 2 == 0 ? 195 : 5;
    const std::vector<bf16> x = bf16_normals(random, 6 * in, 1e-6f);
    for (int64_t rows : {1, 2, 6}) {
      check_rows(rows, [&](Ops& ops, int64_t first, int64_t count) {
        HostTensor<bf16> input({count, in}, rows_of(x, first, count, in));
        HostTensor<bf16> y({count, out});
        EXPECT_TRUE(ops.linear({input.view(), weight.weight(), {}, y.ref()}));
        return floats(y.values);
      });
    }
  }
}

TEST(FastLinear, DamagedWeights) {
  for (Isa isa : available_isas()) {
    const auto ops = make_fast_cpu_ops(2, isa);
    std::mt19937 random(1);
    constexpr int64_t in = 128;
    constexpr int64_t out = 40;
    for (int64_t rows : {1, 2, 9}) {
      const HostTensor<bf16> x({rows, in}, bf16_normals(random, rows * in));
      HostTensor<bf16> y({rows, out});
      for (DType format : {DType::e4m3, DType::e2m1x2}) {
        RandomWeight weight(format, out, in, 7);
        weight.scales().back() = e8m0_nan;
        const Status refused = ops->linear({x.view(), weight.weight(), {}, y.ref()});
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().message, "w.scale: expected E8M0 scales, found NaN (0xFF)");
      }
      // A NaN weight makes its output NaN, for every row, and no other.
      for (DType format : {DType::e4m3, DType::bf16}) {
        RandomWeight weight(format, out, in, 8);
        const size_t bytes = format == DType::bf16 ? 2 : 1;
        for (size_t b = 0; b < bytes; ++b) weight.codes()[(13 * in + 77) * bytes + b] = 0xFF;
        ASSERT_TRUE(ops->linear({x.view(), weight.weight(), {}, y.ref()}));
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t o = 0; o < out; ++o)
            EXPECT_EQ(std::isnan(to_float(y.values[static_cast<size_t>(r * out + o)])), o == 13)
                << r << " " << o;
      }
    }
  }
}

// f32 results of [first, first + count) of bf16 rows, by the kernels alone.
std::vector<float> products(const fast::LinearKernels& kernels, const Weight& weight,
                            const std::vector<bf16>& x, int64_t first, int64_t count) {
  const fast::StoredMatrix m = fast::stored_matrix(weight);
  const int64_t out = weight.out();
  const int64_t values = kernels.block_values(m.in);
  const int64_t blocks = (count + kernels.row_block - 1) / kernels.row_block;
  fast::Scratch scratch;
  auto* arranged = scratch.take<uint16_t>(fast::Scratch::input, blocks * values);
  for (int64_t b = 0; b < blocks; ++b) {
    const uint16_t* rows[fast::largest_row_block] = {};
    const int64_t width = std::min(count, kernels.row_block);
    for (int64_t r = 0; r < width && b * width + r < count; ++r)
      rows[r] = reinterpret_cast<const uint16_t*>(x.data() + (first + b * width + r) * m.in);
    kernels.arrange(m.format, rows, width, m.in, arranged + b * values);
  }
  std::vector<float> y(static_cast<size_t>(count * out));
  EXPECT_TRUE(kernels.multiply(m, 0, out, {arranged, values, count}, y.data(), out,
                               scratch.take<uint8_t>(fast::Scratch::panel, kernels.panel_bytes(m.in))));
  return y;
}

// Values so far apart that every sum rounds: the order of summation shows.
TEST(FastLinear, OrderOfSummationDependsOnColumnsAlone) {
  constexpr int64_t out = 37;
  constexpr int64_t rows = 40;
  for (Isa isa : available_isas()) {
    for (DType format : formats) {
      for (int64_t in : {96, 544, 1664}) {
        SCOPED_TRACE(std::string(isa_name(isa)) + " " + std::string(dtype_name(format)) + " " +
                     std::to_string(in));
        std::mt19937 random(4);
        const RandomWeight weight(format, out, in, 10);
        std::vector<bf16> x = bf16_normals(random, rows * in);
        for (bf16& v : x) v = to_bf16(std::ldexp(to_float(v), static_cast<int>(random() % 41) - 20));
        const fast::LinearKernels& kernels = fast::linear_kernels(isa);
        const std::vector<float> together = products(kernels, weight.weight(), x, 0, rows);
        for (int64_t count : {1, 2, 3, 4, 5, 8, 17}) {
          for (int64_t first = 0; first + count <= rows; first += count) {
            const std::vector<float> some = products(kernels, weight.weight(), x, first, count);
            EXPECT_EQ(std::memcmp(some.data(), together.data() + first * out, some.size() * sizeof(float)), 0)
                << count << " rows from " << first;
          }
        }
      }
    }
  }
}

// Inputs and scales so small that products become subnormal, which some instructions take for zero. Inputs
// that are quantized first never are.
TEST(FastLinear, TinyInputsHaveTheSameBitsInAnyNumberOfRows) {
  constexpr int64_t in = 256;
  constexpr int64_t out = 40;
  constexpr int64_t rows = 12;
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(std::string(isa_name(isa)));
    const auto ops = make_fast_cpu_ops(1, isa);
    std::mt19937 random(3);
    RandomWeight weight(DType::e4m3, out, in, 9);
    for (uint8_t& scale : weight.scales()) scale = static_cast<uint8_t>(97 + random() % 8);
    const std::vector<bf16> x = bf16_normals(random, rows * in, 0x1p-104f);
    const HostTensor<bf16> all({rows, in}, x);
    HostTensor<bf16> together({rows, out});
    ASSERT_TRUE(ops->grouped_linear({all.view(), weight.weight(), 1, together.ref()}));
    for (int64_t r = 0; r < rows; ++r) {
      const HostTensor<bf16> one({1, in}, rows_of(x, r, 1, in));
      HostTensor<bf16> alone({1, out});
      ASSERT_TRUE(ops->grouped_linear({one.view(), weight.weight(), 1, alone.ref()}));
      EXPECT_EQ(std::memcmp(alone.values.data(), together.values.data() + r * out, out * sizeof(bf16)), 0)
          << r;
    }
  }
}

// NaN and infinite inputs reach every output of their row, and no other row.
TEST(FastLinear, DamagedInputs) {
  constexpr int64_t in = 96;
  constexpr int64_t out = 33;
  constexpr int64_t rows = 6;
  std::mt19937 random(3);
  std::vector<bf16> x = bf16_normals(random, rows * in);
  x[2 * in + 40] = to_bf16(NAN);
  for (DType format : formats) {
    const RandomWeight weight(format, out, in, 9);
    check_rows(rows, [&](Ops& ops, int64_t first, int64_t count) {
      HostTensor<bf16> input({count, in}, rows_of(x, first, count, in));
      HostTensor<bf16> y({count, out});
      EXPECT_TRUE(ops.linear({input.view(), weight.weight(), {}, y.ref()}));
      return floats(y.values);
    });
  }
}

TEST(FastLinear, OtherPlainWeights) {
  constexpr int64_t in = 64;
  std::mt19937 random(4);
  const HostTensor<float> weight({10, in}, normals(random, 10 * in));
  const std::vector<bf16> x = bf16_normals(random, 3 * in);
  check_rows(3, [&](Ops& ops, int64_t first, int64_t count) {
    HostTensor<bf16> input({count, in}, rows_of(x, first, count, in));
    HostTensor<bf16> y({count, 10});
    EXPECT_TRUE(ops.linear({input.view(), {weight.view(), {}, {}}, {}, y.ref()}));
    return floats(y.values);
  });
}

TEST(FastGroupedLinear, AgainstExact) {
  for (DType format : {DType::e4m3, DType::bf16}) {
    constexpr int64_t groups = 4;
    constexpr int64_t in = 160;
    constexpr int64_t out = groups * 40;
    const RandomWeight weight(format, out, in, 11);
    std::mt19937 random(12);
    for (int64_t rows : {1, 3, 19}) {
      const std::vector<bf16> x = bf16_normals(random, rows * groups * in);
      check_rows(rows, [&](Ops& ops, int64_t first, int64_t count) {
        HostTensor<bf16> input({count, groups * in}, rows_of(x, first, count, groups * in));
        HostTensor<bf16> y({count, out});
        EXPECT_TRUE(ops.grouped_linear({input.view(), weight.weight(), groups, y.ref()}));
        return floats(y.values);
      });
    }
  }
}

TEST(FastRoute, ChoicesAndWeights) {
  constexpr int64_t dim = 320;
  constexpr int64_t experts = 48;
  constexpr int64_t k = 6;
  const RandomWeight gate(DType::bf16, experts, dim, 21);
  std::mt19937 random(22);
  const HostTensor<float> bias({experts}, normals(random, experts));
  for (int64_t rows : {1, 3, 40}) {
    const std::vector<bf16> x = bf16_normals(random, rows * dim, 0.1f);
    check_rows(
        rows,
        [&](Ops& ops, int64_t first, int64_t count) {
          HostTensor<bf16> input({count, dim}, rows_of(x, first, count, dim));
          HostTensor<int32_t> chosen({count, k});
          HostTensor<float> weights({count, k});
          EXPECT_TRUE(ops.route({.x = input.view(),
                                 .gate = gate.weight().data,
                                 .bias = bias.view(),
                                 .image_bias = {},
                                 .image_rows = {},
                                 .route_scale = 1.5,
                                 .experts = chosen.ref(),
                                 .weights = weights.ref()}));
          std::vector<float> all;
          for (int64_t i = 0; i < count * k; ++i) {
            all.push_back(static_cast<float>(chosen.values[static_cast<size_t>(i)]));
            all.push_back(weights.values[static_cast<size_t>(i)]);
          }
          return all;
        },
        1e-5);
  }
}

struct ExpertCase {
  int64_t rows, experts, k, dim, inter;
};

struct Experts {
  std::vector<RandomWeight> storage;
  ExpertWeights shared;
  std::unique_ptr<ResidentExperts> routed;

  Experts(const ExpertCase& c, DType format) {
    std::vector<ExpertWeights> all;
    uint32_t seed = 100;
    storage.reserve(static_cast<size_t>(3 * (c.experts + 1)));
    const auto make = [&](DType f) {
      ExpertWeights e;
      const auto add = [&](int64_t out, int64_t in) {
        storage.emplace_back(f, out, in, seed++);
        return storage.back().weight();
      };
      e.w1 = add(c.inter, c.dim);
      e.w2 = add(c.dim, c.inter);
      e.w3 = add(c.inter, c.dim);
      return e;
    };
    for (int64_t e = 0; e < c.experts; ++e) all.push_back(make(format));
    shared = make(DType::e4m3);
    routed = std::make_unique<ResidentExperts>(std::move(all));
  }
};

TEST(FastExperts, AgainstExact) {
  for (const ExpertCase& c :
       {ExpertCase{1, 5, 2, 64, 32}, {3, 4, 3, 160, 96}, {40, 7, 6, 128, 224}, {9, 2, 1, 96, 64}}) {
    for (DType format : {DType::e2m1x2, DType::e4m3}) {
      const Experts weights(c, format);
      std::mt19937 random(31);
      const std::vector<bf16> x = bf16_normals(random, c.rows * c.dim, 0.2f);
      std::vector<int32_t> chosen;
      for (int64_t r = 0; r < c.rows; ++r) {
        std::vector<int32_t> all(static_cast<size_t>(c.experts));
        for (size_t e = 0; e < all.size(); ++e) all[e] = static_cast<int32_t>(e);
        std::shuffle(all.begin(), all.end(), random);
        chosen.insert(chosen.end(), all.begin(), all.begin() + c.k);
      }
      const std::vector<float> row_weights = normals(random, c.rows * c.k);
      check_rows(c.rows, [&](Ops& ops, int64_t first, int64_t count) {
        HostTensor<bf16> input({count, c.dim}, rows_of(x, first, count, c.dim));
        HostTensor<int32_t> experts({count, c.k}, rows_of(chosen, first, count, c.k));
        HostTensor<float> w({count, c.k}, rows_of(row_weights, first, count, c.k));
        HostTensor<bf16> y({count, c.dim});
        EXPECT_TRUE(ops.expert_layer({.x = input.view(),
                                      .experts = experts.view(),
                                      .weights = w.view(),
                                      .routed = weights.routed.get(),
                                      .shared = &weights.shared,
                                      .swiglu_limit = 10,
                                      .out = y.ref()}));
        return floats(y.values);
      });
    }
  }
}

TEST(FastExperts, NanScaleNamesItsTensor) {
  const ExpertCase c{2, 3, 1, 64, 32};
  Experts weights(c, DType::e2m1x2);
  std::mt19937 random(1);
  const HostTensor<bf16> x({2, c.dim}, bf16_normals(random, 2 * c.dim));
  const HostTensor<float> w({2, 1}, {1, 1});
  HostTensor<bf16> y({2, c.dim});
  weights.storage[4].scales()[0] = e8m0_nan;  // w2 of expert 1
  for (Isa isa : available_isas()) {
    const auto ops = make_fast_cpu_ops(2, isa);
    for (int32_t e : {0, 1, 2}) {
      const HostTensor<int32_t> experts({2, 1}, {0, e});
      const Status done = ops->expert_layer({.x = x.view(),
                                             .experts = experts.view(),
                                             .weights = w.view(),
                                             .routed = weights.routed.get(),
                                             .shared = &weights.shared,
                                             .swiglu_limit = 10,
                                             .out = y.ref()});
      ASSERT_EQ(done.has_value(), e != 1);
      if (!done) {
        EXPECT_THAT(done.error().message, HasSubstr("expected E8M0 scales, found NaN"));
      }
    }
  }
}

}  // namespace
}  // namespace fathom::testing
