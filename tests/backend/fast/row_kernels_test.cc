// Kernels by themselves: the quantizers are exact, the rest is close to its definition.
#include "backend/fast/row_kernels.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "backend/cpu/kernels.h"
#include "tensor/cache_layout.h"
#include "tests/backend/fast/row_check.h"

namespace fathom {
namespace {

using testing::bf16_normals;
using testing::floats;
using testing::normals;

class RowKernelsTest : public ::testing::TestWithParam<Isa> {
 protected:
  const fast::RowKernels rows = fast::row_kernels(GetParam());
};

INSTANTIATE_TEST_SUITE_P(EveryIsa, RowKernelsTest,
                         ::testing::ValuesIn(available_isas().begin(), available_isas().end()),
                         [](const auto& test) { return std::string(isa_name(test.param)); });

// Every bf16 number in blocks of like magnitude; at every magnitude blocks of a normal distribution; and
// random bits, so that NaN and infinity meet numbers.
std::vector<bf16> all_kinds() {
  std::vector<bf16> x;
  for (uint32_t u = 0; u < 0x10000; ++u) x.push_back({static_cast<uint16_t>(u)});
  std::mt19937 random(1);
  for (int e = -130; e < 128; ++e)
    for (bf16 v : bf16_normals(random, 64)) x.push_back(to_bf16(std::ldexp(to_float(v), e)));
  for (int i = 0; i < 1 << 16; ++i) x.push_back({static_cast<uint16_t>(random())});
  // Every quotient there is around the midpoints of the grids: an amax, then numbers below it.
  for (uint32_t u = 0; u < 1 << 16; ++u)
    x.push_back(u % 32 == 0 ? to_bf16(448.0f) : to_bf16(static_cast<float>(random() % 1024) * 0.4375f));
  return x;
}

// Bits by element: NaN must meet NaN, -0 must meet -0.
void expect_same(const std::vector<bf16>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_EQ(actual[i].bits, to_bf16(expected[i]).bits) << "element " << i;
}

TEST_P(RowKernelsTest, Fp8GridIsExact) {
  const std::vector<bf16> x = all_kinds();
  const auto n = static_cast<int64_t>(x.size());
  std::vector<float> expected = floats(x);
  round_to_fp8_grid(expected.data(), n);
  std::vector<bf16> out(x.size());
  rows.fp8_grid(x.data(), n, out.data());
  expect_same(out, expected);
  out = x;
  rows.fp8_grid(out.data(), n, out.data());
  expect_same(out, expected);
}

TEST_P(RowKernelsTest, IndexGridIsExact) {
  std::vector<bf16> x = all_kinds();
  std::vector<float> expected = floats(x);
  round_to_index_fp4_grid(expected.data(), static_cast<int64_t>(x.size()));
  rows.index_fp4_grid(x.data(), static_cast<int64_t>(x.size()));
  expect_same(x, expected);
}

TEST_P(RowKernelsTest, RecordsAreExact) {
  const std::vector<bf16> x = all_kinds();
  const std::vector<float> values = floats(x);
  for (int64_t dim : {32, 64, 512}) {
    struct Kind {
      RecordLayout layout;
      void (*expected)(const float*, int64_t, std::byte*);
      void (*actual)(const bf16*, int64_t, uint8_t*);
    };
    const Kind kinds[] = {{window_record(dim), pack_window, rows.pack_window},
                          {compressed_record(dim), pack_compressed, rows.pack_compressed},
                          {index_record(dim), pack_index, rows.pack_index}};
    for (const Kind& kind : kinds) {
      std::vector<std::byte> expected(static_cast<size_t>(kind.layout.bytes()));
      std::vector<uint8_t> actual(expected.size());
      for (int64_t i = 0; i + dim <= static_cast<int64_t>(x.size()); i += dim) {
        kind.expected(values.data() + i, dim, expected.data());
        kind.actual(x.data() + i, dim, actual.data());
        ASSERT_EQ(std::memcmp(expected.data(), actual.data(), expected.size()), 0)
            << "record of " << dim << " at " << i;
      }
    }
  }
}

TEST_P(RowKernelsTest, Swiglu) {
  std::mt19937 random(2);
  constexpr int64_t n = 2304;
  std::vector<bf16> gate = bf16_normals(random, n, 6);
  std::vector<bf16> up = bf16_normals(random, n, 6);
  for (size_t i = 64; i < 128; ++i) gate[i] = to_bf16(-to_float(gate[i]) * 100);  // far out on both sides
  for (float limit : {0.0f, 10.0f}) {
    std::vector<float> expected(n);
    for (size_t i = 0; i < n; ++i)
      expected[i] = cpu::swiglu(to_float(gate[i]), to_float(up[i]), static_cast<double>(limit), 0.37f);
    round_to_fp8_grid(expected.data(), n);
    std::vector<bf16> hidden(n);
    rows.swiglu(gate.data(), up.data(), n, limit, 0.37f, hidden.data());
    EXPECT_LE(testing::relative_error(floats(hidden), expected), 4e-3);
    size_t different = 0;
    for (size_t i = 0; i < n; ++i) different += to_float(hidden[i]) != expected[i];
    EXPECT_LE(different, n / 100u);  // where f32 falls on the other side of a rounding boundary
  }
  gate[3] = to_bf16(NAN);
  up[40] = to_bf16(NAN);
  std::vector<bf16> hidden(n);
  rows.swiglu(gate.data(), up.data(), n, 10, 1, hidden.data());
  for (size_t i = 0; i < n; ++i) EXPECT_EQ(std::isnan(to_float(hidden[i])), i == 3 || i == 40);
}

TEST_P(RowKernelsTest, SumsOfRowsKeepTheirOrder) {
  std::mt19937 random(3);
  for (int64_t n : {0, 1, 16, 37, 640}) {
    std::vector<std::vector<bf16>> parts;
    std::vector<const bf16*> pointers;
    for (int i = 0; i < 7; ++i) parts.push_back(bf16_normals(random, n, std::ldexp(1.0f, 3 * i)));
    for (const auto& part : parts) pointers.push_back(part.data());
    std::vector<float> total(static_cast<size_t>(n));
    std::vector<float> sum(static_cast<size_t>(n));
    for (const auto& part : parts) {
      for (size_t i = 0; i < part.size(); ++i) total[i] += to_float(part[i]);
      rows.add_row(part.data(), n, sum.data());
    }
    EXPECT_EQ(sum, total);
    std::vector<bf16> rounded(static_cast<size_t>(n));
    rows.round_row(sum.data(), n, rounded.data());
    expect_same(rounded, total);
    std::vector<bf16> at_once(static_cast<size_t>(n));
    rows.sum_rows(pointers.data(), 7, n, at_once.data());
    EXPECT_EQ(at_once, rounded);
  }
}

TEST_P(RowKernelsTest, CosAndSinAreTheNearest) {
  std::mt19937 random(4);
  std::vector<double> angles = {0, -0.0, 1e-30, 0x1p20, -0x1p20, 3.14159274101257324, 1.57079637050628662};
  std::uniform_real_distribution<double> exponent(-20, 20);
  for (int i = 0; i < 100000; ++i)
    angles.push_back(static_cast<double>(static_cast<float>(std::exp2(exponent(random)))) * (i % 2 ? 1 : -1));
  const auto n = static_cast<int64_t>(angles.size());
  std::vector<float> cosine(angles.size());
  std::vector<float> sine(angles.size());
  rows.cos_sin(angles.data(), n, cosine.data(), sine.data());
  size_t different = 0;
  for (size_t i = 0; i < angles.size(); ++i) {
    different += cosine[i] != static_cast<float>(std::cos(angles[i]));
    different += sine[i] != static_cast<float>(std::sin(angles[i]));
    EXPECT_NEAR(static_cast<double>(sine[i]), std::sin(angles[i]), 6e-8);
    EXPECT_NEAR(static_cast<double>(cosine[i]), std::cos(angles[i]), 6e-8);
  }
  EXPECT_LE(different, 3u);  // f64 values that lie between two floats
}

struct RouteCase {
  RouterScore score;
  int64_t experts, chosen;
  float spread;
};

void expect_route(const fast::RowKernels& rows, const RouteCase& c, std::mt19937& random) {
  const std::vector<float> logits = normals(random, c.experts, c.spread);
  const std::vector<float> bias = normals(random, c.experts, 0.1f);
  std::vector<float> work(static_cast<size_t>(2 * ((c.experts + 15) / 16 * 16)));
  std::vector<int32_t> experts(static_cast<size_t>(c.chosen));
  std::vector<float> weights(experts.size());
  ASSERT_TRUE(rows.route_row({c.score, c.experts, c.chosen, 1.5}, logits.data(), bias.data(), work.data(),
                             experts.data(), weights.data()));
  std::vector<double> scores(logits.begin(), logits.end());
  cpu::score_logits(c.score, scores.data(), c.experts);
  std::vector<int32_t> order(static_cast<size_t>(c.experts));
  std::iota(order.begin(), order.end(), 0);
  const auto biased = [&](int32_t e) {
    return static_cast<float>(scores[static_cast<size_t>(e)] +
                              static_cast<double>(bias[static_cast<size_t>(e)]));
  };
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return biased(a) > biased(b); });
  double sum = 0;
  for (int64_t i = 0; i < c.chosen; ++i) sum += scores[static_cast<size_t>(experts[static_cast<size_t>(i)])];
  for (size_t i = 0; i < experts.size(); ++i) {
    if (experts[i] != order[i]) {
      EXPECT_NEAR(biased(experts[i]), biased(order[i]), 1e-6) << i;
    }
    double w = scores[static_cast<size_t>(experts[i])];
    if (c.chosen > 1) w /= sum + 1e-20;
    EXPECT_NEAR(static_cast<double>(weights[i]) / (w * 1.5), 1, 3e-6);
  }
}

TEST_P(RowKernelsTest, Route) {
  std::mt19937 random(5);
  for (const RouterScore score : {RouterScore::sqrtsoftplus, RouterScore::sigmoid, RouterScore::softmax})
    for (int repeat = 0; repeat < 20; ++repeat)
      for (auto [n, k] : {std::pair{384, 6}, {16, 2}, {7, 7}, {33, 1}})
        expect_route(rows, {score, n, k, repeat % 2 ? 1.0f : 8.0f}, random);
}

TEST_P(RowKernelsTest, RouteTiesGoToTheLowerExpertAndNanIsFound) {
  std::vector<float> logits(40, 0.5f);
  std::vector<float> bias(40, 0.0f);
  std::vector<float> work(96);
  int32_t experts[4];
  float weights[4];
  logits[37] = 2;
  const fast::RouteRow row{RouterScore::sqrtsoftplus, 40, 4, 1};
  ASSERT_TRUE(rows.route_row(row, logits.data(), bias.data(), work.data(), experts, weights));
  EXPECT_EQ(experts[0], 37);
  EXPECT_EQ(experts[1], 0);
  EXPECT_EQ(experts[2], 1);
  EXPECT_EQ(experts[3], 2);
  // Minus infinity is a number too: it is chosen when nothing else is left.
  std::fill(bias.begin() + 1, bias.end(), -INFINITY);
  ASSERT_TRUE(rows.route_row(row, logits.data(), bias.data(), work.data(), experts, weights));
  EXPECT_EQ(experts[0], 0);
  EXPECT_EQ(experts[1], 1);
  EXPECT_EQ(experts[3], 3);
  logits[39] = NAN;
  bias.assign(40, 0.0f);
  EXPECT_FALSE(rows.route_row(row, logits.data(), bias.data(), work.data(), experts, weights));
}

TEST_P(RowKernelsTest, RouteKeepsScoresThatOnlyTheirRootFits) {
  std::vector<float> logits = {-150, -151, -120};  // e^-120 is no f32, its root is
  std::vector<float> bias(3, 0.0f);
  std::vector<float> work(32);
  int32_t experts[2];
  float weights[2];
  ASSERT_TRUE(rows.route_row({RouterScore::sqrtsoftplus, 3, 2, 1}, logits.data(), bias.data(), work.data(),
                             experts, weights));
  EXPECT_EQ(experts[0], 2);
  EXPECT_EQ(experts[1], 0);
  EXPECT_GT(weights[1], 0);
}

}  // namespace
}  // namespace fathom
