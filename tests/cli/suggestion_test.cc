#include "cli/suggestion.h"

#include <gtest/gtest.h>

#include <vector>

namespace fathom {
namespace {

const std::vector<std::string> known = {
    "--model",      "--prompt",  "--prompt-file", "--temperature",      "--top-k", "--top-p",  "--min-p",
    "--max-tokens", "--context", "--threads",     "--presence-penalty", "chat",    "generate", "inspect"};

TEST(Suggestion, KnowsOtherSpellings) {
  EXPECT_EQ(suggestion("-m", known), "--model");
  EXPECT_EQ(suggestion("--n-predict", known), "--max-tokens");
  EXPECT_EQ(suggestion("--ctx-size", known), "--context");
  EXPECT_EQ(suggestion("run", known), "chat");
  EXPECT_EQ(suggestion("-s", known), "");  // --seed is not among those
}

TEST(Suggestion, KnowsBeginningsAndSlips) {
  EXPECT_EQ(suggestion("--temp", known), "--temperature");
  EXPECT_EQ(suggestion("--max-token", known), "--max-tokens");
  EXPECT_EQ(suggestion("--max_tokens", known), "--max-tokens");
  EXPECT_EQ(suggestion("--tempreature", known), "--temperature");
  EXPECT_EQ(suggestion("chta", known), "chat");
  EXPECT_EQ(suggestion("gen", known), "generate");
}

TEST(Suggestion, GuessesNothingWhereSeveralOrNoneAreNear) {
  EXPECT_EQ(suggestion("--top", known), "");
  EXPECT_EQ(suggestion("--top-x", known), "");
  EXPECT_EQ(suggestion("--fly", known), "");
  EXPECT_EQ(suggestion("-x", known), "");
  EXPECT_EQ(suggestion("", known), "");
  EXPECT_EQ(suggestion("--", known), "");
}

}  // namespace
}  // namespace fathom
