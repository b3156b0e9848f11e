#include "cli/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace fathom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

struct Parsed {
  ModelFlags model;
  AnswerFlags answer;
  ThinkingFlags thinking;
  std::string error;
};

/// Parses `arguments` with all shared flags on one command.
Parsed parse(std::vector<std::string> arguments) {
  Parsed out;
  CLI::App app("test", "test");
  out.model.add_to(app);
  out.answer.add_to(app);
  out.thinking.add_to(app);
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(arguments);
    out.answer.check();
    out.thinking.check();
  } catch (const CLI::ParseError& e) {
    out.error = e.what();
    if (out.error.empty()) out.error = "?";
  }
  return out;
}

TEST(Options, Defaults) {
  const auto out = parse({"--model", "dir"});
  EXPECT_EQ(out.error, "");
  EXPECT_EQ(out.model.directory, "dir");
  EXPECT_GE(out.model.threads, 1);
  EXPECT_EQ(out.answer.sampling.temperature, 1);
  EXPECT_EQ(out.answer.sampling.top_p, 0.95);
  EXPECT_TRUE(out.thinking.thinking);
  EXPECT_EQ(out.thinking.effort, 75);
  EXPECT_FALSE(out.thinking.given);
}

TEST(Options, ReadsEveryFlag) {
  const auto out = parse({"--model",
                          "d",
                          "--threads",
                          "3",
                          "--temperature",
                          "0.5",
                          "--top-k",
                          "7",
                          "--top-p",
                          "0.9",
                          "--min-p",
                          "0.1",
                          "--seed",
                          "18446744073709551615",
                          "--stop",
                          "a b",
                          "--stop=c",
                          "--repetition-penalty",
                          "1.1",
                          "--presence-penalty",
                          "-0.5",
                          "--frequency-penalty=-1",
                          "--logit-bias",
                          "5=-100",
                          "--logit-bias=6=1.5",
                          "--max-tokens",
                          "9",
                          "--thinking",
                          "off",
                          "--effort",
                          "max"});
  EXPECT_EQ(out.error, "");
  EXPECT_EQ(out.model.threads, 3);
  const SamplingParams& s = out.answer.sampling;
  EXPECT_EQ(s.temperature, 0.5);
  EXPECT_EQ(s.top_k, 7);
  EXPECT_EQ(s.top_p, 0.9);
  EXPECT_EQ(s.min_p, 0.1);
  EXPECT_EQ(s.repetition_penalty, 1.1);
  EXPECT_EQ(s.presence_penalty, -0.5);
  EXPECT_EQ(s.frequency_penalty, -1);
  EXPECT_EQ(s.seed, 18446744073709551615u);
  EXPECT_THAT(s.logit_bias, ElementsAre(Pair(5, -100.0f), Pair(6, 1.5f)));
  EXPECT_THAT(out.answer.stop, ElementsAre("a b", "c"));
  EXPECT_EQ(out.answer.max_tokens, 9);
  EXPECT_FALSE(out.thinking.thinking);
  EXPECT_EQ(out.thinking.effort, 100);
  EXPECT_TRUE(out.thinking.given);
}

TEST(Options, AContextIsANumberOfPositions) {
  EXPECT_EQ(parse({"--model", "m", "--context", "5"}).model.context, 5);
  EXPECT_EQ(parse({"--model", "m", "--context", "128k"}).model.context, 131072);
  EXPECT_EQ(parse({"--model", "m", "--context", "1M"}).model.context, 1048576);
  for (const char* text :
       {"0", "-1", "", "K", "1.5K", "128kB", "2048M", "2147483648", "9223372036854775807K"})
    EXPECT_THAT(
        parse({"--model", "m", "--context", text}).error,
        HasSubstr(
            std::string("--context: expected 1 to 2147483647 positions, such as 8192 or 128K, found '") +
            text))
        << text;
}

TEST(Options, EffortIsAWordOrANumber) {
  EXPECT_EQ(parse({"--model", "d", "--effort", "low"}).thinking.effort, 50);
  EXPECT_EQ(parse({"--model", "d", "--effort", "1"}).thinking.effort, 1);
  for (const char* bad : {"0", "101", "medium", "7x", ""})
    EXPECT_THAT(parse({"--model", "d", "--effort", bad}).error, HasSubstr("--effort"));
}

TEST(Options, WrongValuesNameTheFlag) {
  EXPECT_THAT(parse({}).error, HasSubstr("--model"));
  const auto error = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"--model", "d"});
    return parse(more).error;
  };
  EXPECT_THAT(error({"--threads", "0"}), HasSubstr("--threads"));
  EXPECT_THAT(error({"--threads", "x"}), HasSubstr("--threads"));
  EXPECT_THAT(error({"--max-tokens", "0"}), HasSubstr("--max-tokens"));
  EXPECT_THAT(error({"--temperature", "-1"}), HasSubstr("temperature"));
  EXPECT_THAT(error({"--temperature", "nan"}), HasSubstr("temperature"));
  EXPECT_THAT(error({"--top-p", "2"}), HasSubstr("top_p"));
  EXPECT_THAT(error({"--seed", "-1"}), HasSubstr("--seed"));
  EXPECT_THAT(error({"--thinking", "maybe"}), HasSubstr("--thinking"));
  EXPECT_THAT(error({"--stop", ""}), HasSubstr("--stop"));
  EXPECT_THAT(error({"--stop", "\xff"}), HasSubstr("--stop"));
  EXPECT_THAT(error({"--max-tokens", "99999999999999999999"}), HasSubstr("--max-tokens"));
  EXPECT_THAT(error({"--nonsense"}), HasSubstr("--nonsense"));
  for (const char* bad : {"5", "=1", "5=", "x=1", "5=1x", "99999999999=1", ""})
    EXPECT_THAT(error({"--logit-bias", bad}), HasSubstr("--logit-bias")) << bad;
  EXPECT_THAT(error({"--logit-bias", "5=101"}), HasSubstr("logit_bias"));
  EXPECT_THAT(error({"--logit-bias", "-5=1"}), HasSubstr("logit_bias"));
}

TEST(Options, InstructionsHaveNamesOnly) {
  constexpr Isa some[] = {Isa::portable, Isa::avx2};
  EXPECT_EQ(choose_isa("avx2", some).value(), Isa::avx2);
  EXPECT_EQ(choose_isa("amx", some).error().message, "this processor has no amx; it has avx2, portable");
  for (const char* unknown : {"1", "0", "AVX2", "sse", ""})
    EXPECT_THAT(choose_isa(unknown, some).error().message,
                HasSubstr("expected one of amx, avx512, avx2, portable, found '"));

  EXPECT_EQ(parse({"--model", "d", "--isa", "portable"}).model.isa, Isa::portable);
  EXPECT_EQ(parse({"--model", "d", "--isa", "1"}).error,
            "--isa: expected one of amx, avx512, avx2, portable, found '1'");
}

TEST(Options, WithoutASeedEachRunHasAnother) {
  EXPECT_NE(parse({"--model", "d"}).answer.sampling.seed, parse({"--model", "d"}).answer.sampling.seed);
}

}  // namespace
}  // namespace fathom
