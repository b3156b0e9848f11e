#include "sampling/stop.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace fathom {
namespace {

struct Outcome {
  std::string shown;
  std::optional<size_t> matched;
  bool operator==(const Outcome&) const = default;
};

/// The definition: the first end position at which any stop string ends; the longest of those.
Outcome reference(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<size_t> best;
    for (size_t i = 0; i < stops.size(); ++i) {
      const bool here =
          stops[i].size() <= end && text.compare(end - stops[i].size(), stops[i].size(), stops[i]) == 0;
      if (here && (!best || stops[i].size() > stops[*best].size())) best = i;
    }
    if (best) return {text.substr(0, end - stops[*best].size()), best};
  }
  return {text, std::nullopt};
}

StopMatcher make(const std::vector<std::string>& stops) {
  auto matcher = StopMatcher::make(stops);
  EXPECT_TRUE(matcher);
  return std::move(*matcher);
}

/// Pushes `text` in pieces that end at `cuts`, and checks that nothing is shown too early or too late.
Outcome run(const std::vector<std::string>& stops, const std::string& text, const std::vector<size_t>& cuts) {
  StopMatcher matcher = make(stops);
  std::string shown;
  size_t begin = 0;
  for (const size_t end : cuts) {
    shown += matcher.push(std::string_view(text).substr(begin, end - begin));
    begin = end;
    EXPECT_TRUE(text.starts_with(shown));
    if (matcher.stopped()) break;
    // What is held back begins a stop string, and nothing longer does.
    const std::string held = text.substr(shown.size(), end - shown.size());
    for (size_t i = 0; i <= end; ++i) {
      const std::string suffix = text.substr(i, end - i);
      bool begins = suffix.empty();
      for (const std::string& s : stops) begins = begins || (s.starts_with(suffix) && s != suffix);
      if (begins) {
        EXPECT_EQ(suffix, held);
        break;
      }
    }
  }
  shown += matcher.finish();
  return {shown, matcher.matched()};
}

TEST(StopMatcher, WithoutStopStringsAllTextPasses) {
  StopMatcher matcher = make({});
  EXPECT_EQ(matcher.push("abc"), "abc");
  EXPECT_EQ(matcher.push(""), "");
  EXPECT_EQ(matcher.finish(), "");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, SpansPushes) {
  StopMatcher matcher = make({"\nUser:"});
  EXPECT_EQ(matcher.push("Hello\nUs"), "Hello");
  EXPECT_EQ(matcher.push("ed to"), "\nUsed to");
  EXPECT_EQ(matcher.push(" it\n"), " it");
  EXPECT_EQ(matcher.push("User: x"), "");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.push("more"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, FinishShowsWhatWasHeldBack) {
  StopMatcher matcher = make({"abcd"});
  EXPECT_EQ(matcher.push("xabc"), "x");
  EXPECT_EQ(matcher.finish(), "abc");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, TheFirstCompletedWinsAndThenTheLongest) {
  EXPECT_EQ(run({"abcd", "bc"}, "xabcd", {5}), (Outcome{"xa", 1}));
  EXPECT_EQ(run({"c", "abc", "bc"}, "xabc", {4}), (Outcome{"x", 1}));
  EXPECT_EQ(run({"q", "z", "z"}, "az", {2}), (Outcome{"a", 1}));
}

TEST(StopMatcher, KeepsCharactersWhole) {
  StopMatcher matcher = make({"éa"});
  EXPECT_EQ(matcher.push("è"), "è");  // shares its first byte with the stop string
  EXPECT_EQ(matcher.push("é"), "");
  EXPECT_EQ(matcher.push("b"), "éb");
}

TEST(StopMatcher, AgreesWithTheDefinitionForEverySplit) {
  std::mt19937 rng(11);
  const auto random_text = [&](size_t max_length) {
    std::string s(rng() % max_length + 1, 'a');
    for (char& c : s) c = static_cast<char>('a' + rng() % 2);
    return s;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops(rng() % 4 + 1);
    for (std::string& s : stops) s = random_text(6);
    const std::string text = random_text(24);
    const Outcome expected = reference(stops, text);
    EXPECT_EQ(run(stops, text, {text.size()}), expected);
    std::vector<size_t> single, random;
    for (size_t i = 1; i <= text.size(); ++i) single.push_back(i);
    EXPECT_EQ(run(stops, text, single), expected);
    for (size_t i = 1; i < text.size(); ++i)
      if (rng() % 3 == 0) random.push_back(i);
    random.push_back(text.size());
    EXPECT_EQ(run(stops, text, random), expected);
  }
}

TEST(StopMatcher, RefusesAnEmptyStopString) {
  const auto matcher = StopMatcher::make(std::vector<std::string>{"a", ""});
  ASSERT_FALSE(matcher);
  EXPECT_EQ(matcher.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(matcher.error().message.find("stop string 1"), std::string::npos);
}

// Quadratic matching would take minutes: the text restarts a long stop string at every byte.
TEST(StopMatcher, IsLinearInHostileText) {
  const std::string stop = std::string(300000, 'a') + "b";
  StopMatcher matcher = make({stop});
  size_t shown = 0;
  for (int i = 0; i < 600000; ++i) shown += matcher.push("a").size();
  EXPECT_EQ(shown, 300000u);
  EXPECT_EQ(matcher.push("b"), "");
  EXPECT_TRUE(matcher.stopped());
}

}  // namespace
}  // namespace fathom
