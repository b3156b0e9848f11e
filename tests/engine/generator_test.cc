#include "engine/generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/engine/fake_model.h"

namespace fathom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

const std::vector<std::string> words = {"<end>", "a", "b", "c", "d", "e", "f", "~"};

/// Counts up from the last token: 1 2 3 ... 7 0.
int32_t next(const std::vector<int32_t>& ids) { return (ids.back() + 1) % 8; }

GenerateRequest greedy(std::vector<int32_t> prompt, int64_t max_tokens = 100) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.max_tokens = max_tokens;
  request.stop_ids = {0};
  return request;
}

Generation run(Generator& generator, const GenerateRequest& request, const GenerateHooks& hooks = {}) {
  FakeDecoder decoder(words);
  auto result = generator.run(request, decoder, hooks);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result.value_or(Generation{});
}

std::string error(Generator& generator, const GenerateRequest& request, const GenerateHooks& hooks = {}) {
  FakeDecoder decoder(words);
  auto result = generator.run(request, decoder, hooks);
  EXPECT_FALSE(result);
  return result ? "" : std::move(result).error().message;
}

TEST(Generator, StopsAtAStopToken) {
  FakeModel model(8, 100, next);
  Generator generator(model);
  const auto out = run(generator, greedy({1, 2, 3}));
  EXPECT_THAT(out.ids, ElementsAre(4, 5, 6, 7, 0));
  EXPECT_EQ(out.text, "def~");  // the held-back piece comes out, the stop token does not
  EXPECT_EQ(out.reason, FinishReason::stop_token);
  EXPECT_EQ(out.prompt_tokens, 3);
  EXPECT_EQ(finish_reason_name(out.reason), "stop");
}

TEST(Generator, StopsAtMaxTokens) {
  FakeModel model(8, 100, next);
  Generator generator(model);
  const auto out = run(generator, greedy({1}, 2));
  EXPECT_THAT(out.ids, ElementsAre(2, 3));
  EXPECT_EQ(out.reason, FinishReason::max_tokens);
  EXPECT_EQ(finish_reason_name(out.reason), "length");
  EXPECT_THAT(model.chunks, ElementsAre(1, 1));  // the last token is not computed
}

TEST(Generator, StopsWhenTheContextIsFull) {
  FakeModel model(8, 5, next);
  Generator generator(model);
  const auto out = run(generator, greedy({1, 2, 3}));
  EXPECT_THAT(out.ids, ElementsAre(4, 5));
  EXPECT_EQ(out.reason, FinishReason::context_full);
  EXPECT_THAT(error(generator, greedy({1, 2, 3, 4, 5})), HasSubstr("prompt"));
}

TEST(Generator, StopsAtAStopStringAcrossTokens) {
  FakeModel model(8, 100, next);
  Generator generator(model);
  auto request = greedy({1});
  request.stop = {"zz", "de"};
  std::string streamed;
  const auto out = run(generator, request, {.text = [&](std::string_view text) {
                         EXPECT_FALSE(text.empty());
                         streamed += text;
                         return Status{};
                       }});
  EXPECT_EQ(out.text, "bc");
  EXPECT_EQ(streamed, out.text);
  EXPECT_THAT(out.ids, ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(out.reason, FinishReason::stop_string);
}

TEST(Generator, AStopStringMayEndInTheHeldBackText) {
  FakeModel model(8, 100, next);
  Generator generator(model);
  auto request = greedy({1}, 6);
  request.stop = {"f~"};
  const auto out = run(generator, request);
  EXPECT_EQ(out.text, "bcde");
  EXPECT_EQ(out.reason, FinishReason::stop_string);
}

TEST(Generator, ShowsWhatLookedLikeAStopString) {
  FakeModel model(8, 100, next);
  Generator generator(model);
  auto request = greedy({1}, 2);
  request.stop = {"cx"};
  EXPECT_EQ(run(generator, request).text, "bc");
}

TEST(Generator, PrefillsInChunksAndReportsThem) {
  FakeModel model(8, 100, next);
  Generator generator(model, 4);
  std::vector<std::pair<int64_t, int64_t>> progress;
  run(generator, greedy({1, 1, 1, 1, 1, 1, 1, 1, 1, 6}, 1),
      {.prefill = [&](int64_t done, int64_t total) { progress.emplace_back(done, total); }});
  EXPECT_THAT(model.chunks, ElementsAre(4, 4, 2));
  EXPECT_THAT(progress, ElementsAre(Pair(0, 10), Pair(4, 10), Pair(8, 10), Pair(10, 10)));
}

TEST(Generator, ContinuesAConversation) {
  FakeModel model(8, 100, next);
  Generator generator(model);
  const auto first = run(generator, greedy({1, 2, 3}));
  std::vector<int32_t> prompt = {1, 2, 3};
  prompt.insert(prompt.end(), first.ids.begin(), first.ids.end());
  prompt.push_back(5);
  const auto second = run(generator, greedy(prompt));
  EXPECT_EQ(second.cached_tokens, 7);  // all but the stop token, which was never computed
  EXPECT_EQ(model.num_sequences, 1);
  EXPECT_THAT(second.ids, ElementsAre(6, 7, 0));

  // The same prompt again, and one that departs, begin anew.
  EXPECT_EQ(run(generator, greedy(prompt)).ids, second.ids);
  EXPECT_EQ(model.num_sequences, 2);
  EXPECT_EQ(run(generator, greedy({1, 3})).cached_tokens, 0);
  EXPECT_EQ(model.num_sequences, 3);
}

TEST(Generator, CancelsBetweenStepsAndKeepsWhatIsThere) {
  FakeModel model(8, 100, next);
  Generator generator(model, 2);
  int asked = 0;
  const auto cut = run(generator, greedy({1, 1, 1, 1, 1, 1}), {.cancelled = [&] { return ++asked > 2; }});
  EXPECT_EQ(cut.reason, FinishReason::cancelled);
  EXPECT_TRUE(cut.ids.empty());
  EXPECT_THAT(model.chunks, ElementsAre(2, 2));

  // The computed part of the prompt is not lost.
  const auto whole = run(generator, greedy({1, 1, 1, 1, 1, 1}, 1));
  EXPECT_EQ(whole.cached_tokens, 4);
  asked = 0;
  const auto later = run(generator, greedy({1}), {.cancelled = [&] { return ++asked > 3; }});
  EXPECT_EQ(later.reason, FinishReason::cancelled);
  EXPECT_EQ(later.text, "bc");
}

TEST(Generator, ModelErrorsPassThroughAndTheNextRunStartsAnew) {
  FakeModel model(8, 100, next);
  Generator generator(model);
  model.fail_at_length = 3;
  EXPECT_EQ(error(generator, greedy({1})), "layers.3.weight: cannot be read");
  model.fail_at_length = 0;
  EXPECT_EQ(run(generator, greedy({1, 2, 3, 6}, 1)).cached_tokens, 0);
  model.override.assign(8, std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(error(generator, greedy({1})), HasSubstr("logits"));
}

TEST(Generator, TextErrorsEndTheRun) {
  FakeModel model(8, 100, next);
  Generator generator(model);
  const GenerateHooks hooks = {
      .text = [](std::string_view) -> Status { return fail(ErrorCode::io, "standard output: no space"); }};
  EXPECT_EQ(error(generator, greedy({1}), hooks), "standard output: no space");
}

TEST(Generator, RefusesBadRequests) {
  FakeModel model(8, 100, next);
  Generator generator(model);
  EXPECT_THAT(error(generator, greedy({})), HasSubstr("prompt"));
  EXPECT_THAT(error(generator, greedy({8})), HasSubstr("prompt"));
  EXPECT_THAT(error(generator, greedy({-1})), HasSubstr("prompt"));
  EXPECT_THAT(error(generator, greedy({1}, 0)), HasSubstr("max_tokens"));
  auto request = greedy({1});
  request.stop = {""};
  EXPECT_THAT(error(generator, request), HasSubstr("stop"));
  request = greedy({1});
  request.sampling.top_p = 3;
  EXPECT_THAT(error(generator, request), HasSubstr("top_p"));
  EXPECT_EQ(model.num_sequences, 0);
}

TEST(Generator, SampledRunsRepeat) {
  FakeModel model(8, 100, next);
  Generator generator(model);
  auto request = greedy({1}, 30);
  request.stop_ids.clear();
  request.sampling.temperature = 1;
  request.sampling.seed = 5;
  const auto first = run(generator, request);
  EXPECT_EQ(run(generator, request).ids, first.ids);
  request.stream = 1;
  EXPECT_NE(run(generator, request).ids, first.ids);
}

}  // namespace
}  // namespace fathom
