#include "sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

namespace fathom {
namespace {

using testing::HasSubstr;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

using Distribution = std::map<int32_t, double>;

Sampler make(SamplingParams params, size_t vocab, std::vector<int32_t> prompt = {},
             std::vector<int32_t> output = {}) {
  auto sampler = Sampler::make(std::move(params), static_cast<int64_t>(vocab), prompt);
  EXPECT_TRUE(sampler) << (sampler ? "" : sampler.error().message);
  for (const int32_t id : output) sampler->accept(id);
  return std::move(*sampler);
}

Distribution distribution(const Sampler& sampler, const std::vector<float>& logits) {
  SamplerScratch scratch;
  const Status status = sampler.distribution(logits, scratch);
  EXPECT_TRUE(status) << (status ? "" : status.error().message);
  Distribution out;
  int32_t last = -1;
  for (const Candidate& c : scratch.candidates()) {
    EXPECT_GT(c.id, last);
    EXPECT_GT(c.probability, 0);
    last = c.id;
    out[c.id] = c.probability;
  }
  return out;
}

Distribution distribution(SamplingParams params, const std::vector<float>& logits) {
  return distribution(make(std::move(params), logits.size()), logits);
}

int32_t draw(const Sampler& sampler, const std::vector<float>& logits) {
  SamplerScratch scratch;
  const auto id = sampler.sample(logits, scratch);
  EXPECT_TRUE(id) << (id ? "" : id.error().message);
  return id.value_or(-1);
}

/// The definition, step by step and without any shortcut.
Distribution reference(const SamplingParams& p, const std::vector<float>& logits,
                       const std::vector<int32_t>& prompt, const std::vector<int32_t>& output) {
  const auto n = static_cast<int32_t>(logits.size());
  std::vector<double> x(logits.begin(), logits.end());
  for (int32_t id = 0; id < n; ++id) {
    double& l = x[static_cast<size_t>(id)];
    if (p.logit_bias.contains(id)) l += static_cast<double>(p.logit_bias.at(id));
    const auto said = std::count(output.begin(), output.end(), id);
    const bool seen = said > 0 || std::count(prompt.begin(), prompt.end(), id) > 0;
    if (seen) l = l > 0 ? l / p.repetition_penalty : l * p.repetition_penalty;
    l -= p.frequency_penalty * static_cast<double>(said);
    if (said > 0) l -= p.presence_penalty;
  }
  std::vector<int32_t> order;
  for (int32_t id = 0; id < n; ++id) order.push_back(id);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return x[static_cast<size_t>(a)] > x[static_cast<size_t>(b)];
  });
  if (p.temperature == 0) return {{order[0], 1.0}};
  if (p.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(p.top_k)));
  const auto softmax = [&] {
    std::vector<double> w;
    double total = 0;
    for (const int32_t id : order) {
      w.push_back(std::exp((x[static_cast<size_t>(id)] - x[static_cast<size_t>(order[0])]) / p.temperature));
      total += w.back();
    }
    for (double& v : w) v /= total;
    return w;
  };
  if (p.top_p < 1) {
    const auto w = softmax();
    double sum = w[0];
    size_t keep = 1;
    while (keep < w.size() && sum < p.top_p) sum += w[keep++];
    order.resize(keep);
  }
  auto w = softmax();
  size_t keep = 0;
  while (keep < w.size() && (p.min_p == 0 || w[keep] >= p.min_p * w[0])) ++keep;
  order.resize(keep);
  w = softmax();
  Distribution out;
  for (size_t i = 0; i < w.size(); ++i)
    if (w[i] > 0) out[order[i]] = w[i];
  return out;
}

std::vector<float> random_logits(std::mt19937& rng, size_t vocab, bool ties) {
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<float> logits(vocab);
  for (float& l : logits) l = ties ? std::round(normal(rng)) : normal(rng);
  return logits;
}

TEST(Sampler, AgreesWithTheDefinitionOnRandomLogits) {
  std::mt19937 rng(7);
  const auto one_of = [&](std::vector<double> v) { return v[rng() % v.size()]; };
  for (int round = 0; round < 600; ++round) {
    const size_t vocab = std::vector<size_t>{1, 2, 5, 40, 700}[rng() % 5];
    const auto logits = random_logits(rng, vocab, round % 3 == 0);
    SamplingParams p;
    p.temperature = one_of({0, 0.3, 1, 1, 2.5});
    p.top_k = static_cast<int64_t>(one_of({0, 0, 1, 3, 50, 1e12}));
    p.top_p = one_of({0, 0.1, 0.7, 0.95, 1, 1});
    p.min_p = one_of({0, 0, 0.01, 0.3, 1});
    p.repetition_penalty = one_of({1, 1, 1.3, 0.7});
    p.presence_penalty = one_of({0, 0, 1.5, -0.5});
    p.frequency_penalty = one_of({0, 0, 0.5, -0.25});
    std::vector<int32_t> prompt, output;
    for (int i = 0; i < 20; ++i) {
      prompt.push_back(static_cast<int32_t>(rng() % vocab));
      output.push_back(static_cast<int32_t>(rng() % vocab));
      if (i % 7 == 0)
        p.logit_bias[static_cast<int32_t>(rng() % vocab)] = static_cast<float>(one_of({-100, 1, 5}));
    }
    const auto expected = reference(p, logits, prompt, output);
    const auto found = distribution(make(p, vocab, prompt, output), logits);
    ASSERT_EQ(expected.size(), found.size()) << "round " << round;
    double sum = 0;
    for (const auto& [id, probability] : expected) {
      ASSERT_TRUE(found.contains(id)) << "round " << round << " token " << id;
      ASSERT_NEAR(found.at(id), probability, 1e-12) << "round " << round << " token " << id;
      sum += found.at(id);
    }
    ASSERT_NEAR(sum, 1, 1e-12);
  }
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowerIdOnATie) {
  EXPECT_EQ(draw(make({.temperature = 0}, 4), {1, 3, 2, 3}), 1);
  EXPECT_EQ(draw(make({.temperature = 0}, 3), {-inf, -inf, -5}), 2);
  EXPECT_EQ(draw(make({.temperature = 0}, 3), {0, inf, inf}), 1);
  EXPECT_EQ(draw(make({.temperature = 0, .logit_bias = {{0, 3.0f}}}, 4), {1, 3, 2, 3}), 0);
  EXPECT_EQ(draw(make({.temperature = 0, .repetition_penalty = 2}, 3, {1}), {2, 3, 1}), 0);
  EXPECT_EQ(draw(make({.temperature = 0, .presence_penalty = 2}, 3, {}, {1}), {2, 3, 1}), 0);
}

TEST(Sampler, RepetitionDividesPositiveAndMultipliesNegative) {
  const auto sampler = make({.repetition_penalty = 2}, 4, {0, 0, 0}, {1});
  const auto d = distribution(sampler, {3, -1, 1.5, -2});
  EXPECT_NEAR(d.at(0), d.at(2), 1e-15);  // 3 / 2, once although seen three times
  EXPECT_NEAR(d.at(1), d.at(3), 1e-15);  // -1 * 2
}

TEST(Sampler, PresenceAndFrequencyCountTheOutputAlone) {
  const auto d = distribution(make({.presence_penalty = 1, .frequency_penalty = 0.5}, 4, {3, 3}, {0, 0, 1}),
                              {2, 1.5, 0, 0});
  EXPECT_NEAR(d.at(0), d.at(1), 1e-15);  // 2 - 1 - 2 * 0.5 and 1.5 - 1 - 0.5
  EXPECT_NEAR(d.at(0), d.at(2), 1e-15);
  EXPECT_NEAR(d.at(2), d.at(3), 1e-15);  // in the prompt only: untouched
}

// Bias goes in before the repetition penalty: (0 + 4) / 2 = 2.
TEST(Sampler, BiasComesBeforeThePenalties) {
  const auto d = distribution(make({.repetition_penalty = 2, .logit_bias = {{0, 4.0f}}}, 2, {0}), {0, 2});
  EXPECT_NEAR(d.at(0), 0.5, 1e-15);
}

// Tokens 0..3 with probabilities .4 .3 .2 .1; after top_k = 2 the first holds 4/7 > 0.5.
TEST(Sampler, TopPCountsTheMassThatTopKLeft) {
  const std::vector<float> logits = {std::log(0.4f), std::log(0.3f), std::log(0.2f), std::log(0.1f)};
  EXPECT_EQ(distribution({.top_p = 0.5}, logits).size(), 2u);
  EXPECT_EQ(distribution({.top_k = 2, .top_p = 0.5}, logits).size(), 1u);
}

TEST(Sampler, TopKKeepsExactlyKAndTheLowerIdsOnATie) {
  EXPECT_EQ(distribution({.top_k = 2}, {1, 1, 1, 1}), (Distribution{{0, 0.5}, {1, 0.5}}));
  EXPECT_EQ(distribution({.top_k = 3}, {0, 5, 0, 5, 5}).size(), 3u);
  EXPECT_EQ(distribution({.top_k = 9}, {0, 1}).size(), 2u);
}

TEST(Sampler, EdgesOfTopPAndMinP) {
  EXPECT_EQ(distribution({.top_p = 0}, {1, 2, 2}), (Distribution{{1, 1.0}}));
  EXPECT_EQ(distribution({.top_p = 1}, {0, 40, -40}).size(), 3u);
  EXPECT_EQ(distribution({.min_p = 1}, {1, 2, 2}), (Distribution{{1, 0.5}, {2, 0.5}}));
  EXPECT_EQ(distribution({.min_p = 0}, {0, 40, -40}).size(), 3u);
  EXPECT_EQ(distribution({}, {-3}), (Distribution{{0, 1.0}}));
}

TEST(Sampler, LargeVocabularyNeedsMoreThanOneSortingStep) {
  std::vector<float> logits(5000, 0.0f);
  const auto d = distribution({.top_p = 0.5}, logits);
  EXPECT_EQ(d.size(), 2500u);
  EXPECT_EQ(d.rbegin()->first, 2499);
}

TEST(Sampler, InfiniteLogitsAreLimits) {
  EXPECT_EQ(distribution({}, {inf, 3, inf, -inf}), (Distribution{{0, 0.5}, {2, 0.5}}));
  EXPECT_EQ(distribution({.top_k = 1}, {3, inf, inf}), (Distribution{{1, 1.0}}));
  EXPECT_EQ(distribution({}, {-inf, 3, -inf}), (Distribution{{1, 1.0}}));
}

TEST(Sampler, ExtremeTemperatures) {
  EXPECT_EQ(distribution({.temperature = 5e-324}, {1, 3, 2, 3}), (Distribution{{1, 0.5}, {3, 0.5}}));
  const auto flat = distribution({.temperature = 1e308}, {1, 3e38f, -3e38f});
  for (const auto& [id, p] : flat) EXPECT_NEAR(p, 1.0 / 3, 1e-12);
}

TEST(Sampler, BrokenLogitsAreErrors) {
  SamplerScratch scratch;
  for (const double temperature : {0.0, 1.0}) {
    const auto sampler = make({.temperature = temperature}, 2);
    const auto not_a_number = sampler.sample(std::vector<float>{0, nan}, scratch);
    ASSERT_FALSE(not_a_number);
    EXPECT_EQ(not_a_number.error().code, ErrorCode::format);
    EXPECT_THAT(not_a_number.error().message, HasSubstr("token 1"));
    EXPECT_FALSE(sampler.sample(std::vector<float>{-inf, -inf}, scratch));
    EXPECT_FALSE(sampler.sample(std::vector<float>{inf, nan}, scratch));
  }
  // A penalty may push the only finite logit over the edge.
  EXPECT_FALSE(make({.repetition_penalty = 1e300}, 1, {0}).sample(std::vector<float>{-3e38f}, scratch));
}

TEST(Sampler, RefusesIdsOutsideTheVocabulary) {
  for (const int32_t bad : {-1, 4}) {
    const auto sampler = Sampler::make({}, 4, std::vector<int32_t>{0, bad});
    ASSERT_FALSE(sampler);
    EXPECT_THAT(sampler.error().message, HasSubstr("prompt"));
  }
  EXPECT_FALSE(Sampler::make({.top_p = 2}, 4, {}));
}

TEST(Sampler, DrawsDependOnSeedStreamAndPositionAlone) {
  const std::vector<float> logits(1000, 0.0f);
  auto a = make({.seed = 3}, 1000), b = make({.seed = 3}, 1000);
  std::vector<int32_t> first, second;
  for (int i = 0; i < 20; ++i) {
    first.push_back(draw(a, logits));
    EXPECT_EQ(first.back(), draw(a, logits));  // a repeated question has the same answer
    a.accept(first.back());
  }
  for (int i = 0; i < 20; ++i) {
    second.push_back(draw(b, logits));
    b.accept(0);
  }
  EXPECT_EQ(first, second);
  auto other_seed = make({.seed = 4}, 1000);
  EXPECT_NE(draw(other_seed, logits), first[0]);
  auto other_stream = Sampler::make({.seed = 3}, 1000, {}, 1);
  ASSERT_TRUE(other_stream);
  EXPECT_NE(draw(*other_stream, logits), first[0]);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  const std::vector<float> logits = {0.5f, -1.0f, 2.0f, 1.0f, 0.0f, -3.0f};
  auto sampler = make({.temperature = 0.8, .top_k = 5, .seed = 99}, logits.size());
  const auto expected = distribution(sampler, logits);
  ASSERT_EQ(expected.size(), 5u);
  constexpr int draws = 20000;
  std::map<int32_t, int> counts;
  for (int i = 0; i < draws; ++i) {
    const int32_t id = draw(sampler, logits);
    ++counts[id];
    sampler.accept(id);
  }
  double chi2 = 0;
  for (const auto& [id, p] : expected) chi2 += std::pow(counts[id] - draws * p, 2) / (draws * p);
  EXPECT_EQ(counts.size(), 5u);
  EXPECT_LT(chi2, 23.5);  // 4 degrees of freedom: 99.99 % below
  EXPECT_GT(chi2, 0.05);
}

TEST(Race, TheEarliestArrivalWins) {
  const RandomStream random(11, 2);
  const std::vector<Candidate> candidates = {{3, 0.25}, {5, 0.5}, {900, 0.25}};
  for (uint64_t position = 0; position < 1000; ++position) {
    double best = std::numeric_limits<double>::infinity();
    int32_t want = -1;
    for (const Candidate& c : candidates) {
      const double arrival =
          -std::log(1 - random.uniform(position, static_cast<uint32_t>(c.id))) / c.probability;
      if (arrival < best) {
        best = arrival;
        want = c.id;
      }
    }
    EXPECT_EQ(race(candidates, random, position), want) << position;
  }
}

// Two draws with one stream agree with a probability of the sum over i of 1 / sum over j of
// max(p_j / p_i, q_j / q_i); independent draws would agree much less.
TEST(Race, SimilarDistributionsHaveTheSameWinner) {
  const std::vector<Candidate> p = {{0, 0.5}, {1, 0.3}, {2, 0.2}};
  const std::vector<Candidate> q = {{0, 0.4}, {1, 0.3}, {2, 0.2}, {3, 0.1}};
  double want = 0;
  for (const Candidate& i : p) {
    double sum = 0;
    for (const Candidate& j : q) {
      const double pj = j.id < 3 ? p[static_cast<size_t>(j.id)].probability : 0;
      sum += std::max(pj / i.probability, j.probability / q[static_cast<size_t>(i.id)].probability);
    }
    want += 1 / sum;
  }
  const RandomStream random(5);
  const int n = 100000;
  int equal = 0;
  for (uint64_t position = 0; position < n; ++position)
    equal += race(p, random, position) == race(q, random, position) ? 1 : 0;
  EXPECT_GT(want, 0.8);
  EXPECT_NEAR(static_cast<double>(equal) / n, want, 0.005);  // four standard deviations
}

}  // namespace
}  // namespace fathom
