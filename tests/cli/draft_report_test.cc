#include "cli/draft_report.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(SpeedLine, TellsAnswerPromptAndDrafts) {
  Environment env;
  Generation generation;
  generation.ids = {1, 2, 3, 4};
  generation.decode_seconds = 2;
  generation.prompt_tokens = 30;
  generation.cached_tokens = 20;
  generation.prefill_seconds = 0.5;
  EXPECT_EQ(speed_line(env, generation), "[4 tokens, 2.0 a second; prompt 10, 20.0 a second]\n");
  generation.cached_tokens = 30;
  generation.drafts.passes = 2;
  generation.drafts.offered = 8;
  generation.drafts.accepted = 5;
  EXPECT_EQ(speed_line(env, generation), "[4 tokens, 2.0 a second; 2.50 of 4.00 drafts accepted a pass]\n");
  env.styled = true;
  generation.drafts = {};
  EXPECT_EQ(speed_line(env, generation), "\x1b[2m[4 tokens, 2.0 a second]\x1b[0m\n");
}

TEST(SpeedLine, SurvivesAnAnswerOfNothing) { EXPECT_EQ(speed_line({}, {}), "[0 tokens, 0.0 a second]\n"); }

}  // namespace
}  // namespace fathom
