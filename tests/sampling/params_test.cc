#include "sampling/params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

namespace fathom {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string error_of(const std::function<void(SamplingParams&)>& change) {
  SamplingParams params;
  change(params);
  const Status status = params.validate(100);
  if (!status) {
    EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
    return status.error().message;
  }
  return "";
}

TEST(SamplingParams, AcceptsDefaultsAndLimits) {
  EXPECT_EQ(error_of([](SamplingParams&) {}), "");
  EXPECT_EQ(error_of([](SamplingParams& p) {
              p = {.temperature = 0,
                   .top_k = std::numeric_limits<int64_t>::max(),
                   .top_p = 0,
                   .min_p = 1,
                   .repetition_penalty = 1e-300,
                   .presence_penalty = -2,
                   .frequency_penalty = 2,
                   .logit_bias = {{0, -100.0f}, {99, 100.0f}}};
            }),
            "");
}

TEST(SamplingParams, NamesTheFieldAndTheValue) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (const double bad : {-0.1, nan, inf, -inf})
    EXPECT_THAT(error_of([&](SamplingParams& p) { p.temperature = bad; }), StartsWith("temperature: "));
  for (const double bad : {-0.1, 1.1, nan, inf}) {
    EXPECT_THAT(error_of([&](SamplingParams& p) { p.top_p = bad; }), StartsWith("top_p: "));
    EXPECT_THAT(error_of([&](SamplingParams& p) { p.min_p = bad; }), StartsWith("min_p: "));
  }
  for (const double bad : {0.0, -1.0, nan, inf})
    EXPECT_THAT(error_of([&](SamplingParams& p) { p.repetition_penalty = bad; }),
                StartsWith("repetition_penalty: "));
  for (const double bad : {-2.1, 2.1, nan}) {
    EXPECT_THAT(error_of([&](SamplingParams& p) { p.presence_penalty = bad; }),
                StartsWith("presence_penalty: "));
    EXPECT_THAT(error_of([&](SamplingParams& p) { p.frequency_penalty = bad; }),
                StartsWith("frequency_penalty: "));
  }
  EXPECT_THAT(error_of([](SamplingParams& p) { p.top_k = -1; }), StartsWith("top_k: "));
  EXPECT_THAT(error_of([](SamplingParams& p) { p.top_k = -1; }), HasSubstr("-1"));
  for (const int32_t bad : {-1, 100})
    EXPECT_THAT(error_of([&](SamplingParams& p) {
                  p.logit_bias = {{bad, 0.0f}};
                }),
                StartsWith("logit_bias: "));
  for (const float bad : {-101.0f, 101.0f, std::numeric_limits<float>::quiet_NaN()})
    EXPECT_THAT(error_of([&](SamplingParams& p) { p.logit_bias = {{5, bad}}; }), HasSubstr("token 5"));
}

}  // namespace
}  // namespace fathom
