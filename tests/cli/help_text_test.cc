#include "cli/help_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fathom {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(HelpText, WrapsBetweenWords) {
  EXPECT_EQ(wrapped("", 10), "");
  EXPECT_EQ(wrapped("one two three", 80), "one two three");
  EXPECT_EQ(wrapped("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrapped("one two three", 9, 2), "one two\n  three");
  EXPECT_EQ(wrapped("one two", 9, 4, 4), "one\n    two");
  EXPECT_EQ(wrapped("unbreakable word", 4), "unbreakable\nword");
  EXPECT_EQ(wrapped("a  b", 80), "a b");
  EXPECT_EQ(wrapped("äöü äöü", 7), "äöü äöü");  // characters, not bytes
}

std::string help_of(int columns) {
  CLI::App app("What it is for", "program");
  app.formatter(help_formatter(columns));
  static int number = 3;
  static double ratio = 1;
  static std::string name, word = "on";
  app.add_option("--number", number, "So many of them")->check(CLI::Range(1, 1 << 30))->capture_default_str();
  app.add_option("--ratio", ratio, "A part")->group("Others");
  app.add_option("--name", name, "What it is called by those who have known it for a long time")
      ->required()
      ->type_name("NAME");
  app.add_option("--word", word, "One of two")->type_name("on|off")->check(CLI::IsMember({"on", "off"}));
  app.footer(
      "These words are one paragraph and wrapped.\n  {this one is an example that stays as it is}\nThe end.");
  return app.help();
}

TEST(HelpText, SaysWhatAFlagTakesWithoutTheParsersChecks) {
  const std::string help = help_of(100);
  EXPECT_THAT(help, HasSubstr("\n  --number N                  So many of them (default 3)\n"));
  EXPECT_THAT(help, HasSubstr("--name NAME (required)"));
  EXPECT_THAT(help, HasSubstr("\n  --word on|off               One of two\n"));
  EXPECT_THAT(help, HasSubstr("\n\nOthers:\n  --ratio X"));
  EXPECT_THAT(help, Not(HasSubstr("\n\n\n")));
  EXPECT_TRUE(help.ends_with("The end.\n")) << help;
}

TEST(HelpText, FitsTheTerminal) {
  const std::string help = help_of(60);
  EXPECT_THAT(help, HasSubstr("\n  --name NAME (required)      What it is called by those who\n"
                              "                              have known it for a long time\n"));
  EXPECT_THAT(help, HasSubstr("\n  {this one is an example that stays as it is}\nThe end.\n"));
}

}  // namespace
}  // namespace fathom
