// Drafting in the engine, on models with rules: what is asked of the model, and that answers do not change.
#include "engine/drafting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/generator.h"
#include "tests/engine/fake_model.h"

namespace fathom {
namespace {

using testing::ElementsAre;

const std::vector<std::string> words = {"<end>", "a", "b", "c", "d", "e", "f", "g", "h", "i"};

int32_t up(const std::vector<int32_t>& ids) { return (ids.back() + 1) % 10; }  // 1 2 3 ... 9 0

class Drafting : public ::testing::Test {
 protected:
  Generation run(GenerateRequest request, const GenerateHooks& hooks = {}) {
    FakeDecoder decoder(words);
    auto result = generator.run(request, decoder, hooks);
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return result.value_or(Generation{});
  }
  static GenerateRequest request(std::vector<int32_t> prompt, int64_t drafts, int64_t max_tokens = 100) {
    GenerateRequest r;
    r.prompt = std::move(prompt);
    r.sampling.temperature = 0;
    r.max_tokens = max_tokens;
    r.stop_ids = {0};
    r.drafting = {.max_drafts = drafts, .adaptive = false};
    return r;
  }

  FakeModel model{10, 100, up};
  Generator generator{model};
};

TEST_F(Drafting, RightDraftsSavePasses) {
  model.draft_rule = up;
  const auto out = run(request({1}, 3));
  EXPECT_THAT(out.ids, ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 0));
  EXPECT_THAT(model.chunks, ElementsAre(1, 4, 4));  // 2 345, 6 789 -> 0
  EXPECT_EQ(out.drafts.passes, 2);
  EXPECT_EQ(out.drafts.offered, 6);
  EXPECT_EQ(out.drafts.accepted, 6);
  EXPECT_EQ(out.drafts.mean_accepted(), 3);
  EXPECT_EQ(out.drafts.settled, 8);  // all but the first 1 and the last, which no pass computed
  EXPECT_EQ(out.drafts.passes_per_token(), 1 / (1 + out.drafts.mean_accepted()));
}

TEST_F(Drafting, WrongDraftsCostOnlyRows) {
  model.draft_rule = [](const auto&) { return 1; };
  const auto out = run(request({1}, 2));
  EXPECT_THAT(out.ids, ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 0));
  EXPECT_EQ(out.drafts.passes, 8);
  EXPECT_EQ(out.drafts.accepted, 0);
}

TEST_F(Drafting, KeepsTheRightBeginning) {
  model.draft_rule = [](const auto& ids) { return ids.back() % 3 == 0 ? 1 : up(ids); };
  const auto out = run(request({1}, 8));
  EXPECT_THAT(out.ids, ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 0));
  EXPECT_EQ(out.drafts.passes, 3);  // after 2: 3; after 4: 5 6; after 7: 8 9
  EXPECT_EQ(out.drafts.accepted, 5);
  EXPECT_EQ(out.drafts.settled, 8);
}

TEST_F(Drafting, EndsInsideAPass) {
  model.draft_rule = up;
  EXPECT_THAT(run(request({1}, 8, 4)).ids, ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(model.chunks, ElementsAre(1, 3));  // no row for a token that cannot be said
  auto stopping = request({1}, 8);
  stopping.stop = {"de"};
  const auto out = run(stopping);
  EXPECT_EQ(out.text, "bc");
  EXPECT_THAT(out.ids, ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(out.reason, FinishReason::stop_string);
  EXPECT_EQ(out.drafts.accepted, 3);
  EXPECT_EQ(out.drafts.settled, 4);  // the last token was computed, as a draft
}

TEST_F(Drafting, AConversationContinuesWhereItWouldWithoutDrafts) {
  for (const int64_t drafts : {0, 1, 5}) {
    Generator fresh(model);
    FakeDecoder decoder(words);
    model.draft_rule = up;
    const auto first = fresh.run(request({1, 5}, drafts, 3), decoder);
    ASSERT_TRUE(first);
    EXPECT_THAT(first->ids, ElementsAre(6, 7, 8));
    const auto second = fresh.run(request({1, 5, 6, 7, 8, 4}, drafts, 1), decoder);
    ASSERT_TRUE(second);
    EXPECT_EQ(second->cached_tokens, 4) << drafts;
  }
}

TEST_F(Drafting, FitsTheContext) {
  model.draft_rule = up;
  FakeModel small(10, 6, up);
  small.draft_rule = up;
  Generator tight(small);
  FakeDecoder decoder(words);
  const auto out = tight.run(request({1, 2}, 8), decoder);
  ASSERT_TRUE(out);
  EXPECT_THAT(out->ids, ElementsAre(3, 4, 5, 6));
  EXPECT_EQ(out->reason, FinishReason::context_full);
  EXPECT_THAT(small.chunks, ElementsAre(2, 3));
}

TEST_F(Drafting, CancelledBeforeAPassIsSettled) {
  model.draft_rule = up;
  int asked = 0;
  const auto cut = run(request({1}, 3), {.cancelled = [&] { return ++asked > 2; }});
  EXPECT_EQ(cut.reason, FinishReason::cancelled);
  EXPECT_THAT(cut.ids, ElementsAre(2));
  EXPECT_EQ(cut.drafts.settled, 1);
  EXPECT_EQ(run(request({1, 2, 9}, 0, 1)).cached_tokens, 2);  // the unsettled drafts are gone
}

TEST_F(Drafting, FailureEndsTheDraftsAndNotTheAnswer) {
  model.draft_rule = up;
  model.draft_failure = "mtp.0.ffn.experts.1.w1.scale: NaN";
  const auto out = run(request({1}, 3));
  EXPECT_THAT(out.ids, ElementsAre(2, 3, 4, 5, 6, 7, 8, 9, 0));
  EXPECT_EQ(out.drafts.problem, model.draft_failure);
  EXPECT_EQ(out.drafts.offered, 0);
}

// Drafts are drawn with the numbers and the penalties that the target will use at their positions: from the
// same distributions come the same tokens.
TEST_F(Drafting, DrawsAsTheTargetWill) {
  model.draft_rule = up;
  auto sampled = request({1}, 4, 60);
  sampled.stop_ids.clear();
  sampled.sampling.temperature = 1;
  sampled.sampling.frequency_penalty = 1;
  const auto out = run(sampled);
  EXPECT_EQ(out.drafts.accepted, out.drafts.offered);
  EXPECT_GT(out.drafts.offered, 40);
}

TEST_F(Drafting, LittleConfidenceMakesFewDrafts) {
  model.draft_rule = up;
  auto adaptive = request({1}, 8);
  adaptive.drafting.adaptive = true;
  EXPECT_EQ(run(adaptive).drafts.passes, 1);
  model.confidence = -10;
  const auto out = run(adaptive);
  EXPECT_EQ(out.drafts.offered, 0);
  EXPECT_EQ(out.drafts.passes, 8);
}

TEST(DraftDepth, GoesOnWhileTokensPerCostGrow) {
  const DraftCosts costs{.draft = 0.5, .row = 0.25};
  for (const double p : {0.05, 0.3, 0.5, 0.8, 0.9, 0.99}) {
    const auto confidence = static_cast<float>(std::log(p / (1 - p)));
    const auto rate = [&](int n) {
      double tokens = 1;
      for (int i = 1; i <= n; ++i) tokens += std::pow(p, i);
      return tokens / (1 + costs.draft + n * costs.row);
    };
    int best = 0;
    for (int n = 1; n <= 8; ++n)
      if (rate(n) > rate(best)) best = n;
    DraftDepth depth(costs);
    int got = 0;
    while (got < 8 && depth.one_more(confidence)) ++got;
    EXPECT_EQ(got, best) << p;
  }
}

}  // namespace
}  // namespace fathom
