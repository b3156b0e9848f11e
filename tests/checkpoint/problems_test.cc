#include "checkpoint/problems.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(Printable, EscapesControlCharactersAndCutsBetweenCharacters) {
  EXPECT_EQ(printable("layers.0.é"), "layers.0.é");
  EXPECT_EQ(printable(std::string_view("a\0\x1b[2J\n\x7f", 8)), "a\\x00\\x1b[2J\\x0a\\x7f");
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abcdef...");
  EXPECT_EQ(printable("abé", 3), "ab...");
  EXPECT_EQ(printable("\x80\x80\x80", 2), "...");
}

TEST(Problems, ListsTheFirstAndCountsTheRest) {
  Problems problems(2);
  EXPECT_TRUE(problems.empty());
  problems.add("{} is wrong", "a");
  EXPECT_EQ(problems.text(), "a is wrong");
  problems.add("b");
  EXPECT_EQ(problems.text(), "2 problems:\n  a is wrong\n  b");
  problems.add("c");
  problems.add("d");
  EXPECT_EQ(problems.count(), 4u);
  EXPECT_EQ(problems.text(), "4 problems:\n  a is wrong\n  b\n  and 2 more");
}

TEST(Problems, FitInOneLine) {
  EXPECT_EQ(in_one_line("a is wrong: very"), "a is wrong: very");
  EXPECT_EQ(in_one_line("4 problems:\n  a: wrong\n  b\n  and 2 more"), "4 problems, the first: a: wrong");
}

}  // namespace
}  // namespace fathom
