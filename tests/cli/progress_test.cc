#include "cli/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fathom {
namespace {

using namespace std::chrono_literals;
using testing::EndsWith;
using testing::HasSubstr;

struct Display {
  explicit Display(ProgressDisplay::Style style)
      : progress(
            style, [this](std::string_view t) { text += t; }, {}, [this] { return now; }) {}
  std::string text;
  std::chrono::steady_clock::time_point now{};
  ProgressDisplay progress;
};

TEST(ProgressDisplay, NoneShowsNothing) {
  Display d(ProgressDisplay::Style::none);
  for (int i = 0; i <= 10; ++i, d.now += 10s) d.progress.update(i, 10);
  EXPECT_EQ(d.text, "");
}

TEST(ProgressDisplay, ABarAppearsAfterAMomentAndVanishes) {
  Display d(ProgressDisplay::Style::bar);
  d.progress.update(0, 10);
  d.now += 100ms;
  d.progress.update(2, 10);
  EXPECT_EQ(d.text, "");
  d.now += 600ms;
  d.progress.update(5, 10);
  EXPECT_THAT(d.text, HasSubstr("[###############...............] 5 of 10 tokens"));
  d.progress.update(10, 10);
  EXPECT_THAT(d.text, EndsWith("\r\x1b[K"));
  const std::string before = d.text;
  d.progress.clear();
  EXPECT_EQ(d.text, before);
}

TEST(ProgressDisplay, QuickPromptsLeaveNoTrace) {
  for (const auto style : {ProgressDisplay::Style::bar, ProgressDisplay::Style::lines}) {
    Display d(style);
    d.progress.update(0, 10);
    d.now += 10ms;
    d.progress.update(10, 10);
    EXPECT_EQ(d.text, "");
  }
}

TEST(ProgressDisplay, LinesComeEveryFewSeconds) {
  Display d(ProgressDisplay::Style::lines);
  for (int i = 0; i <= 12; ++i, d.now += 1s) d.progress.update(i, 12);
  EXPECT_EQ(d.text, "prompt: 5 of 12 tokens\nprompt: 10 of 12 tokens\n");
}

}  // namespace
}  // namespace fathom
