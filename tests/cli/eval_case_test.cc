#include "cli/eval_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fathom {
namespace {

using testing::HasSubstr;

TEST(EvalCase, ReadsTheKindsOfLines) {
  const auto cases = parse_eval(
      R"({"task": "facts", "messages": [], "prompt": "p", "expected": "e", "oracle_exact": true, "oracle_min_margin": 0.2}

{"task": "facts", "messages": [], "prompt": "p", "expected": "e", "oracle_exact": true, "oracle_min_margin": 0.04}
{"task": "sort", "messages": [], "prompt": "p", "expected": "e", "oracle_exact": false, "oracle_min_margin": 0.5}
{"task": "image", "messages": [], "prompt": "p", "expected": "e", "image": "x.png", "oracle_exact": true}
{"task": "completion", "prompt": "p", "expected": null, "oracle_greedy": "g"})",
      "file");
  ASSERT_TRUE(cases) << cases.error().message;
  ASSERT_EQ(cases->size(), 5u);
  EXPECT_TRUE((*cases)[0].must_be_exact);
  EXPECT_FALSE((*cases)[1].must_be_exact);
  EXPECT_EQ((*cases)[1].line, 3);
  EXPECT_FALSE((*cases)[2].must_be_exact);
  EXPECT_EQ((*cases)[3].image, "x.png");
  EXPECT_EQ((*cases)[4].image, "");
  EXPECT_TRUE((*cases)[4].is_completion);
  EXPECT_TRUE((*cases)[4].must_be_exact);
  EXPECT_EQ((*cases)[4].expected, "g");
  EXPECT_FALSE((*cases)[4].request);
}

TEST(EvalCase, NamesTheBadLine) {
  for (const char* bad : {"{", "[]", "{}", R"({"task": "a", "prompt": "p", "expected": null})",
                          R"({"task": 1, "prompt": "p", "expected": "e"})"}) {
    const auto cases =
        parse_eval("{\"task\": \"a\", \"prompt\": \"p\", \"expected\": \"e\"}\n" + std::string(bad), "file");
    ASSERT_FALSE(cases) << bad;
    EXPECT_THAT(cases.error().message, HasSubstr("file, line 2"));
  }
}

EvalOutcome outcome(const char* found, bool exact, std::optional<double> margin, DraftStats drafts = {}) {
  return {found, exact, margin, std::move(drafts)};
}

TEST(EvalTable, CountsByTask) {
  EvalTable table;
  EvalCase c;
  c.task = "sort";
  DraftStats drafts;
  drafts.passes = 4;
  drafts.offered = 20;
  drafts.accepted = 12;
  drafts.settled = 16;
  table.add(c, outcome("", true, {}, drafts));
  table.add(c, outcome("other", false, 3.0));
  EXPECT_EQ(table.num_regressions(), 0);
  c.must_be_exact = true;
  c.expected = "right";
  table.add(c, outcome("close", false, 0.01));
  EXPECT_EQ(table.num_regressions(), 0);
  table.add(c, outcome("wrong", false, 0.06));
  table.add(c, outcome("respelled", false, {}));
  EXPECT_EQ(table.num_regressions(), 2);
  c.task = "image";
  table.skip(c, "no images");
  const Json json = table.to_json(1.5);
  EXPECT_EQ(json["tasks"]["sort"]["exact"], 1);
  EXPECT_EQ(json["tasks"]["sort"]["total"], 5);
  EXPECT_EQ(json["tasks"]["sort"]["draft"], (Json{{"passes", 4},
                                                  {"offered", 20},
                                                  {"accepted", 12},
                                                  {"mean_accepted", 3.0},
                                                  {"passes_per_token", 0.25}}));
  EXPECT_EQ(json["tasks"]["image"],
            (Json{{"exact", 0}, {"total", 0}, {"skipped", 1}, {"reason", "no images"}}));
  EXPECT_EQ(json["misses"].size(), 4u);
  EXPECT_EQ(json["regressions"], 2);
  EXPECT_THAT(table.to_text(1.5), HasSubstr("\"wrong\""));
  EXPECT_THAT(table.to_text(1.5),
              HasSubstr("0.2500 passes of the model for each token; 1 / (1 + drafts accepted) = 0.2500"));
  EXPECT_THAT(table.to_text(1.5), HasSubstr("no images"));
}

}  // namespace
}  // namespace fathom
