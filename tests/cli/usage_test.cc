// The command line's manners: help, usage errors, exit codes, failed writes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/cli/run_fathom.h"

namespace fathom {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string tiny = FATHOM_SOURCE_DIR "/tests/golden/tiny/model";

void expect_usage_error(const std::vector<std::string>& arguments, const std::string& part) {
  const Finished run = run_fathom(arguments);
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, StartsWith("fathom: "));
  EXPECT_THAT(run.err, HasSubstr(part));
  EXPECT_THAT(run.err, HasSubstr("--help"));
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
}

TEST(Usage, HelpNamesEveryCommand) {
  const Finished run = run_fathom({"--help"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "");
  for (const char* command : {"generate", "chat", "inspect", "tokenize", "render", "parse", "preprocess",
                              "logits", "eval", "bench"}) {
    EXPECT_THAT(run.out, HasSubstr(command));
    const Finished help = run_fathom({command, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.out, HasSubstr(command));
    EXPECT_THAT(help.out, HasSubstr("--help"));
    EXPECT_EQ(help.err, "");
  }
  const std::string help = run_fathom({"generate", "--help"}).out;
  EXPECT_THAT(help, HasSubstr("--temperature"));
  EXPECT_THAT(help, HasSubstr("one of amx, avx512"));
  EXPECT_THAT(help, testing::Not(HasSubstr("->")));
}

TEST(Usage, WhatIsNotThereYetIsRefusedByName) {
  for (const auto& [arguments, part] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"serve", "--model", tiny}, "serve: not there yet: this version has no server"},
           {{"generate", "--model", tiny, "--prompt", "a", "--device", "cuda"}, "--device: not there yet"},
           {{"generate", "-ngl", "99"}, "-ngl: not there yet: this version runs on the CPU only"},
           {{"server"}, "server: not there yet"}}) {
    const Finished run = run_fathom(arguments);
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.err, HasSubstr(part));
  }
  // A word that is only a value is no such request.
  EXPECT_THAT(run_fathom({"generate", "--model", tiny, "--prompt", "serve", "--fly"}).err,
              HasSubstr("--fly"));
}

TEST(Usage, UnknownWordsAreNamedBeforeWhatIsMissing) {
  // Whose --model was not understood did not forget it.
  expect_usage_error({"generate", "-m", tiny, "--prompt", "a"}, "there is no '-m' (perhaps --model)");
  expect_usage_error({"generate", "--model", tiny, "--prompt", "a", "--temp", "0"},
                     "(perhaps --temperature)");
  expect_usage_error({"chta"}, "there is no 'chta' (perhaps chat)");
  expect_usage_error({"--model", tiny, "generate", "--prompt", "a"},
                     "'--model' stands before the command: expected 'fathom generate --model'");
  expect_usage_error({"chat", "--model", tiny, "--fly"}, "there is no '--fly'; run 'fathom chat --help'");
}

TEST(Usage, HelpFitsALine) {
  for (const char* command :
       {"generate", "chat", "inspect", "tokenize", "parse", "preprocess", "logits", "eval", "bench"}) {
    std::istringstream help(run_fathom({command, "--help"}).out);
    for (std::string line; std::getline(help, line);) {
      if (line.find('{') != std::string::npos) continue;  // an example, which nothing may break
      const auto later = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xc0) == 0x80; });
      EXPECT_LE(static_cast<std::ptrdiff_t>(line.size()) - later, 80) << line;
    }
  }
}

TEST(Usage, Version) {
  const Finished run = run_fathom({"--version"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, testing::MatchesRegex("fathom [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(Usage, WrongArgumentsAreUsageErrors) {
  expect_usage_error({}, "expected a command");
  expect_usage_error({"fly"}, "fly");
  expect_usage_error({"generate"}, "--model");
  expect_usage_error({"generate", "--model", tiny}, "exactly one of --prompt");
  expect_usage_error({"generate", "--model", tiny, "--prompt", "a", "-"}, "exactly one of --prompt");
  expect_usage_error({"generate", "--model", tiny, "a"}, "'a'");
  expect_usage_error({"generate", "--model", tiny, "--prompt", "a", "--thinking", "on"}, "--chat");
  expect_usage_error({"generate", "--model", tiny, "--prompt", "a", "--top-p", "7"}, "top_p");
  expect_usage_error({"chat", "--model", tiny, "--effort", "101"}, "--effort");
  for (const char* draft : {"0", "9", "-1", "yes", ""})
    expect_usage_error({"chat", "--model", tiny, "--draft", draft}, "--draft");
  expect_usage_error({"logits", "--model", tiny, "--ids", "0,1", "--out", "x", "--chunks", "3"}, "--chunks");
  for (const char* ids : {"0,x", "", "1,,2", "1,2,", "-1", "99999999999"})
    expect_usage_error({"logits", "--model", tiny, "--ids", ids, "--out", "x"}, "--ids");
  expect_usage_error({"logits", "--model", tiny, "--ids", "0", "--out", "x", "--greedy", "0"}, "--greedy");
  for (const char* rows : {"0", "", "1,", "1,,4", "x", "5000"})
    expect_usage_error({"bench", "--rows", rows}, "--rows");
  expect_usage_error({"bench", "--seconds", "0"}, "--seconds");
  for (const char* seconds : {"nan", "inf", "-1", "1x"})
    expect_usage_error({"bench", "--seconds", seconds}, "--seconds: expected a number from 0.001 to 3600");
  for (const char* flag : {"--disk-bandwidth", "--memory-bandwidth"})
    for (const char* value : {"nan", "inf", "0", "-1", "1e300", "x"})
      expect_usage_error({"inspect", "--model", tiny, flag, value},
                         std::string(flag) + ": expected a number above 0, at most 1000000000, found");
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--filter", "wq"}, {"--rows", "1"}, {"--shapes", tiny}, {"--experts", "6"}}) {
    std::vector<std::string> arguments = {"bench", "--no-operations"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_usage_error(arguments, more.front() + ": expected without --no-operations");
  }
  expect_usage_error({"generate", "--model", tiny, "--prompt", "a", "--isa", "3"},
                     "--isa: expected one of amx, avx512, avx2, portable, found '3'");
}

TEST(Usage, FailuresHaveExitCodeOneAndOneLine) {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"generate", "--model", "/nonexistent", "--prompt", "a"},
           {"generate", "--model", tiny, "--prompt-file", "/nonexistent"},
           {"chat", "--model", "/nonexistent"},
           {"inspect", "--model", "/nonexistent"},
           {"tokenize", "--model", "/nonexistent"},
           {"logits", "--model", "/nonexistent", "--ids", "0", "--out", "/tmp/x"},
           {"logits", "--model", tiny, "--ids", "0,9999999", "--out", "/tmp/x"},
           {"logits", "--model", tiny, "--ids", "0", "--out", "/nonexistent/x"},
           {"eval", "--model", tiny, "/nonexistent"},
           {"preprocess", "--model", tiny, "/nonexistent", "--out", "/tmp/x"},
           {"preprocess", "--model", "/nonexistent", "a.png", "--out", "/tmp/x"}}) {
    const Finished run = run_fathom(arguments);
    EXPECT_EQ(run.exit_code, 1) << arguments[0];
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, StartsWith("fathom: "));
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  }
}

TEST(Usage, AFailedWriteIsAFailure) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--version"}, {"--help"}, {"parse", "--help"}}) {
    RunOptions full;
    full.stdout_path = "/dev/full";
    const Finished run = run_fathom(arguments, full);
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.err, HasSubstr("standard output: No space left"));
    RunOptions closed;
    closed.close_stdout = true;
    EXPECT_EQ(run_fathom(arguments, closed).exit_code, 1);
  }
}

}  // namespace
}  // namespace fathom
