// fathom bench as its users run it, with a few milliseconds for each figure: what it says, never how fast.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/cli/run_fathom.h"

namespace fathom {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string tiny = FATHOM_SOURCE_DIR "/tests/golden/tiny/model";

std::vector<std::string> with(std::vector<std::string> more) {
  std::vector<std::string> all = {"bench",     "--exact", "--threads", "2",
                                  "--seconds", "0.005",   "--shapes",  tiny};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

void expect_rate(const Json& rate) {
  EXPECT_GT(rate.at("median").get<double>(), 0);
  EXPECT_GE(rate.at("best").get<double>(), rate.at("median").get<double>());
  EXPECT_GE(rate.at("samples").get<int>(), 1);
  EXPECT_GE(rate.at("clean").get<int>(), 0);
  EXPECT_LE(rate.at("clean").get<int>(), rate.at("samples").get<int>());
}

TEST(Bench, JsonHasLimitsOperationsAndModel) {
  const Finished run = run_fathom(
      with({"--filter", "wkv", "--rows", "1,4", "--model", tiny, "--prompt-tokens", "5", "--json"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto json = parse_json(run.out, "output");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(json->at("backend"), "cpu-exact");
  EXPECT_GT(json->at("quiet").at("baseline_seconds").get<double>(), 0);

  const Json& limits = json->at("limits");
  EXPECT_EQ(limits.at("threads"), 2);
  expect_rate(limits.at("read"));
  expect_rate(limits.at("read_one_thread"));
  ASSERT_FALSE(limits.at("peaks").empty());
  double peak = 0;
  for (const Json& p : limits.at("peaks")) {
    expect_rate(p.at("registers"));
    expect_rate(p.at("one_thread"));
    expect_rate(p.at("streamed"));
    peak = std::max(peak, p.at("registers").at("best").get<double>());
  }

  const Json& operations = json->at("operations");
  ASSERT_EQ(operations.size(), 4u);  // wkv and engram.wkv
  EXPECT_EQ(operations[0].at("name"), "wkv");
  EXPECT_EQ(operations[1].at("rows"), 4);
  for (const Json& o : operations) {
    const double seconds = o.at("seconds").get<double>();
    const double bytes = o.at("bytes").get<double>();
    const double flop = o.at("flop").get<double>();
    const double limit = std::max(bytes / limits.at("read").at("best").get<double>(), flop / peak);
    EXPECT_GT(seconds, 0);
    EXPECT_LE(o.at("best_seconds").get<double>(), seconds);
    EXPECT_NEAR(o.at("limit_seconds").get<double>() / limit, 1, 1e-9);
    EXPECT_GT(o.at("share_of_limit").get<double>(), 0);
    EXPECT_NEAR(o.at("bytes_per_second").get<double>() * seconds / bytes, 1, 1e-9);
    EXPECT_NEAR(o.at("flop_per_second").get<double>() * seconds / flop, 1, 1e-9);
  }
  EXPECT_EQ(operations[1].at("bytes"), operations[0].at("bytes"));
  EXPECT_EQ(operations[1].at("flop").get<double>(), 4 * operations[0].at("flop").get<double>());

  const Json& model = json->at("model");
  EXPECT_EQ(model.at("prompt_tokens"), 5);
  expect_rate(model.at("prefill_tokens_per_second"));
  expect_rate(model.at("decode_tokens_per_second"));
  EXPECT_GT(model.at("decode_bytes").get<double>(), 0);
}

TEST(Bench, TablesFitAHundredColumns) {
  const Finished run = run_fathom(with({"--filter", "norm", "--rows", "1"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("Limits of this machine\n"));
  EXPECT_THAT(run.out, HasSubstr("\nrms_norm "));
  EXPECT_THAT(run.out, HasSubstr("\ncollapse_norm "));
  EXPECT_THAT(run.out, testing::Not(HasSubstr("\nwq_a ")));
  for (size_t begin = 0; begin < run.out.size();) {
    const size_t end = run.out.find('\n', begin);
    ASSERT_NE(end, std::string::npos);
    EXPECT_LE(end - begin, 100u) << run.out.substr(begin, end - begin);
    begin = end + 1;
  }
}

// Nothing was measured, or the limits would stand on standard output.
void expect_refusal(std::vector<std::string> more, const std::string& part) {
  more.insert(more.begin(), {"bench", "--exact", "--threads", "2", "--seconds", "0.001"});
  const Finished run = run_fathom(more);
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr(part));
}

TEST(Bench, WhatCannotBeMeasuredIsRefusedBeforeAnythingIs) {
  for (const char* flag : {"--model", "--disk"})
    expect_refusal({"--no-operations", flag, "/nonexistent"}, "/nonexistent");
  expect_refusal({"--shapes", "/nonexistent"}, "/nonexistent");
  expect_refusal({"--shapes", FATHOM_SOURCE_DIR "/tests"}, "config.json");
  expect_refusal({"--no-operations", "--disk", "/dev/zero"}, "/dev/zero: expected a regular file");
  expect_refusal({"--no-operations", "--model", tiny, "--prompt-tokens", "1048576"},
                 "--prompt-tokens: expected");
  expect_refusal({"--shapes", tiny, "--filter", "nosuchthing"},
                 "--filter: expected a part of one of these names, found 'nosuchthing': wq_a, ");
  expect_refusal({"--shapes", tiny, "--filter", "layer.", "--rows", "4,16"}, "--rows: expected");
  expect_refusal({"--shapes", tiny, "--experts", "100000"}, "--experts: expected");
}

TEST(Bench, AnInterruptKeepsWhatWasMeasured) {
  RunOptions options;
  options.interrupt_after = 0;
  const Finished run =
      run_fathom({"bench", "--exact", "--threads", "2", "--seconds", "0.005", "--rows", "256"}, options);
  EXPECT_EQ(run.exit_code, 130);
  EXPECT_THAT(run.out, StartsWith("Limits of this machine\n"));
  EXPECT_THAT(run.err, HasSubstr("interrupted"));

  RunOptions at_once;
  at_once.interrupt_pending = true;
  const Finished nothing = run_fathom({"bench", "--exact", "--threads", "2", "--seconds", "0.005"}, at_once);
  EXPECT_EQ(nothing.exit_code, 130);
  EXPECT_EQ(nothing.out, "");
  EXPECT_EQ(nothing.err, "fathom: interrupted\n");
}

}  // namespace
}  // namespace fathom
