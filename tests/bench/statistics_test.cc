#include "bench/statistics.h"

#include <gtest/gtest.h>

namespace fathom::bench {
namespace {

TEST(Statistics, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({9, 1, 5}), 5);
  EXPECT_EQ(median({4, 1, 3, 100}), 3.5);
}

TEST(Statistics, QuantileIsAValueThatWasSeen) {
  const std::vector<double> values = {8, 1, 7, 2, 6, 3, 5, 4};
  EXPECT_EQ(quantile(values, 0), 1);
  EXPECT_EQ(quantile(values, 0.25), 3);
  EXPECT_EQ(quantile(values, 1), 8);
}

TEST(Statistics, SummaryTakesTheMedianOfCleanSamplesAndTheBestOfAll) {
  const Sample samples[] = {{9, true}, {1, false}, {5, true}, {100, false}, {6, true}};
  const Summary summary = summarize(samples);
  EXPECT_EQ(summary.median, 6);
  EXPECT_EQ(summary.best, 1);
  EXPECT_EQ(summary.clean, 3);
  EXPECT_EQ(summary.taken, 5);
}

TEST(Statistics, WithoutCleanSamplesAllCount) {
  const Sample samples[] = {{9, false}, {1, false}, {5, false}};
  EXPECT_EQ(summarize(samples).median, 5);
  EXPECT_EQ(summarize(samples).clean, 0);
  EXPECT_EQ(summarize({}).taken, 0);
}

TEST(Statistics, RatesTurnTheBestTimeIntoTheHighestRate) {
  const Rate rate = rate_of({.median = 0.5, .best = 0.25, .clean = 2, .taken = 3}, 10);
  EXPECT_EQ(rate.median, 20);
  EXPECT_EQ(rate.best, 40);
  EXPECT_EQ(rate.clean, 2);
  EXPECT_EQ(rate.taken, 3);
  EXPECT_EQ(rate_of({}, 10).median, 0);
}

}  // namespace
}  // namespace fathom::bench
