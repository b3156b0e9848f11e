// The vectors that the fast path is written in: error bounds of their functions and exact conversions.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "backend/fast/isa.h"
#include "tests/backend/fast/vec_probe.h"

namespace fathom {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

fast::VecProbe probe_of(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return fast::avx512::vec_probe();
  if (isa == Isa::avx2) return fast::avx2::vec_probe();
#endif
  return fast::portable::vec_probe();
}

class Vec : public ::testing::TestWithParam<Isa> {
 protected:
  const fast::VecProbe probe = probe_of(GetParam());
};

INSTANTIATE_TEST_SUITE_P(EveryIsa, Vec, ::testing::ValuesIn(available_isas().begin(), available_isas().end()),
                         [](const auto& test) { return std::string(isa_name(test.param)); });

// Every `step`-th float of those between low and high, by magnitude.
std::vector<float> floats_between(float low, float high, uint32_t step) {
  std::vector<float> out;
  for (uint32_t u = std::bit_cast<uint32_t>(low); u <= std::bit_cast<uint32_t>(high); u += step)
    out.push_back(std::bit_cast<float>(u));
  return out;
}

std::vector<float> with_negatives(std::vector<float> x) {
  const size_t n = x.size();
  for (size_t i = 0; i < n; ++i) x.push_back(-x[i]);
  return x;
}

// The largest error over x in units of the last place of the exact result (of the smallest normal number
// where that is subnormal).
template <class Exact>
double worst_ulps(void (*function)(const float*, int64_t, float*), const std::vector<float>& x,
                  const Exact& exact) {
  std::vector<float> out(x.size());
  function(x.data(), static_cast<int64_t>(x.size()), out.data());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = exact(static_cast<double>(x[i]));
    if (std::isinf(static_cast<float>(expected)) && std::isinf(out[i])) continue;
    int exponent;
    std::frexp(expected, &exponent);
    const double ulp = std::ldexp(1.0, std::max(exponent, -125) - 24);
    const double error = std::fabs(static_cast<double>(out[i]) - expected) / ulp;
    if (!(error <= worst)) worst = error;  // NaN too
  }
  return worst;
}

const auto exact_sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
const auto exact_softplus_root = [](double x) { return std::sqrt(x > 20 ? x : std::log1p(std::exp(x))); };

TEST_P(Vec, Exp) {
  const std::vector<float> x = with_negatives(floats_between(0, 120, 257));
  EXPECT_LE(worst_ulps(probe.exp, x, [](double v) { return std::exp(v); }), 1.2);
  const std::vector<float> special = {0,      -0.0f, inf,    -inf,    nan,   3e38f,
                                      -3e38f, 88.8f, -87.5f, -104.0f, 1e-40f};
  std::vector<float> out(special.size());
  probe.exp(special.data(), static_cast<int64_t>(special.size()), out.data());
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[1], 1);
  EXPECT_EQ(out[2], inf);
  EXPECT_EQ(out[3], 0);
  EXPECT_TRUE(std::isnan(out[4]));
  EXPECT_EQ(out[5], inf);
  EXPECT_EQ(out[6], 0);
  EXPECT_EQ(out[7], inf);
  EXPECT_GT(out[8], 0);
  EXPECT_LT(out[8], std::numeric_limits<float>::min());
  EXPECT_EQ(out[9], 0);
  EXPECT_EQ(out[10], 1);
}

TEST_P(Vec, Sigmoid) {
  // Down to where e^-x overflows and the value is subnormal.
  std::vector<float> x = floats_between(0, 1000, 311);
  for (float v : floats_between(0, 87.3f, 311)) x.push_back(-v);
  EXPECT_LE(worst_ulps(probe.sigmoid, x, exact_sigmoid), 2.5);
  const std::vector<float> special = {inf, -inf, nan, -200};
  std::vector<float> out(special.size());
  probe.sigmoid(special.data(), 4, out.data());
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[1], 0);
  EXPECT_TRUE(std::isnan(out[2]));
  EXPECT_EQ(out[3], 0);
}

TEST_P(Vec, SqrtSoftplus) {
  std::vector<float> x = floats_between(0, 1e6f, 311);
  for (float v : floats_between(0, 174, 311)) x.push_back(-v);
  EXPECT_LE(worst_ulps(probe.sqrt_softplus, x, exact_softplus_root), 2.0);
  const std::vector<float> special = {inf, -inf, nan};
  std::vector<float> out(special.size());
  probe.sqrt_softplus(special.data(), 3, out.data());
  EXPECT_EQ(out[0], inf);
  EXPECT_EQ(out[1], 0);
  EXPECT_TRUE(std::isnan(out[2]));
}

TEST_P(Vec, Erfc) {
  const std::vector<float> x = floats_between(0, 9, 311);
  std::vector<float> out(x.size());
  probe.erfc_positive(x.data(), static_cast<int64_t>(x.size()), out.data());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i)
    worst =
        std::max(worst, std::fabs(static_cast<double>(out[i]) / std::erfc(static_cast<double>(x[i])) - 1));
  EXPECT_LE(worst, 1e-5);
  const std::vector<float> special = {inf, nan, 3e38f};
  out.resize(3);
  probe.erfc_positive(special.data(), 3, out.data());
  EXPECT_EQ(out[0], 0);
  EXPECT_TRUE(std::isnan(out[1]));
  EXPECT_EQ(out[2], 0);
}

TEST_P(Vec, Bf16IsExact) {
  // Every upper half with lower halves around the ties, signs, subnormals, infinities and NaNs included.
  std::vector<float> x;
  for (uint32_t upper = 0; upper < 0x10000; ++upper)
    for (uint32_t lower : {0x0000u, 0x0001u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      x.push_back(std::bit_cast<float>(upper << 16 | lower));
  x.pop_back();  // so that there is a tail
  std::vector<bf16> out(x.size());
  probe.to_bf16(x.data(), static_cast<int64_t>(x.size()), out.data());
  size_t wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) wrong += out[i] != to_bf16(x[i]);
  EXPECT_EQ(wrong, 0u);

  std::vector<bf16> all;
  for (uint32_t u = 0; u < 0xFFFF; ++u) all.push_back({static_cast<uint16_t>(u)});
  std::vector<float> back(all.size());
  probe.to_float(all.data(), static_cast<int64_t>(all.size()), back.data());
  for (size_t i = 0; i < all.size(); ++i)
    wrong += std::bit_cast<uint32_t>(back[i]) != static_cast<uint32_t>(all[i].bits) << 16;
  EXPECT_EQ(wrong, 0u);
}

TEST_P(Vec, TailsTouchNothingElse) {
  for (int64_t n = 0; n < 40; ++n) {
    std::vector<float> x(static_cast<size_t>(n), 1.0f);  // the sanitizer sees reads past its end
    std::vector<bf16> out(static_cast<size_t>(n) + 1, bf16{0x1234});
    probe.to_bf16(x.data(), n, out.data());
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(out[static_cast<size_t>(i)], to_bf16(1.0f));
    EXPECT_EQ(out.back(), bf16{0x1234});
  }
}

TEST_P(Vec, BytesSumAndMaximum) {
  std::vector<uint32_t> numbers;
  std::vector<float> x;
  for (uint32_t i = 0; i < 16; ++i) {
    numbers.push_back(255 - 16 * i);
    x.push_back(static_cast<float>(1 << i));
  }
  std::vector<uint8_t> bytes(16);
  probe.low_bytes(numbers.data(), bytes.data());
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(bytes[i], numbers[i]);
  EXPECT_EQ(probe.sum(x.data()), 65535);
  EXPECT_EQ(probe.max_lane(x.data()), 32768);
  x[3] = nan;
  EXPECT_TRUE(std::isnan(probe.sum(x.data())));
  EXPECT_EQ(probe.max_lane(x.data()), 32768);
  std::fill(x.begin(), x.end(), -3.0f);
  x[15] = -2;
  EXPECT_EQ(probe.max_lane(x.data()), -2);
  std::fill(x.begin(), x.end(), nan);
  EXPECT_EQ(probe.max_lane(x.data()), -inf);
  // Lanes 8 apart first, then 4, 2, 1: any other order loses the 1.
  x.assign(16, 0.0f);
  x[0] = 0x1p30f;
  x[8] = -0x1p30f;
  x[1] = 1;
  EXPECT_EQ(probe.sum(x.data()), 1);
}

}  // namespace
}  // namespace fathom
