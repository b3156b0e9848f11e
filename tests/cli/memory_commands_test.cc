// --memory of the commands, through the program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/json.h"
#include "tests/cli/run_fathom.h"

namespace fathom {
namespace {

using testing::HasSubstr;

const std::string tiny = FATHOM_SOURCE_DIR "/tests/golden/tiny/model";
const std::string released = FATHOM_RELEASED_SHAPE;
constexpr bool sanitized = FATHOM_SANITIZED;

Json parsed(const std::string& text) {
  auto json = parse_json(text, "output");
  EXPECT_TRUE(json) << (json ? text : json.error().message);
  return json ? std::move(*json) : Json();
}

TEST(Memory, ABudgetChangesNoAnswer) {
  const auto generate = [](const char* memory) {
    const Finished run = run_fathom({"generate", "--model", tiny, "--exact", "--memory", memory, "--json",
                                     "--temperature", "0", "--max-tokens", "8", "--prompt", "abc"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return parsed(run.out);
  };
  const Json mapped = generate("mapped"), budget = generate("1.5G");
  EXPECT_EQ(budget["ids"], mapped["ids"]);
  EXPECT_FALSE(mapped.contains("memory"));
  EXPECT_EQ(budget["memory"]["budget_bytes"], int64_t{3} << 29);
  EXPECT_GT(budget["memory"]["experts"]["misses"], 0);
}

TEST(Memory, ATooSmallBudgetIsRefusedWithTheSmallestThatWorks) {
  const Finished run = run_fathom({"generate", "--model", tiny, "--memory", "1M", "--prompt", "abc"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err,
              HasSubstr("1.0 MiB of memory is too little for this model: the smallest that works is"));
  EXPECT_THAT(run.err, HasSubstr("(--memory)"));
  const Finished inspect = run_fathom({"inspect", "--model", tiny, "--memory", "1M"});
  EXPECT_EQ(inspect.exit_code, 1);
  EXPECT_THAT(inspect.out, HasSubstr("the smallest that works is"));
  EXPECT_EQ(inspect.err, "fathom: " + tiny + ": this model cannot run with so little memory\n");
}

TEST(Memory, InspectPlansForTheContextAskedFor) {
  const auto plan = [](const char* context) {
    const Finished run = run_fathom({"inspect", "--model", tiny, "--json", "--memory", "1.5G", "--context",
                                     context, "--disk-bandwidth", "1", "--memory-bandwidth", "10"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return parsed(run.out)["memory"]["with_budget"];
  };
  const Json small = plan("64"), large = plan("1M");
  EXPECT_EQ(small["context"], 64);
  EXPECT_LT(small["sequence_bytes"], large["sequence_bytes"]);
  EXPECT_LT(large["context"], 1 << 20);  // the model's
}

// The number in a refusal, bytes.
int64_t told_smallest(const std::string& message) {
  const std::string before = "the smallest that works is ";
  const size_t at = message.find(before);
  return at == std::string::npos ? 0 : std::stoll(message.substr(at + before.size())) << 20;
}

TEST(Memory, TheSmallestThatIsToldWorksAndIsTheSameEverywhere) {
  if (sanitized) GTEST_SKIP() << "the process is not of the size that it is otherwise";
  const auto memory = [](int64_t bytes) { return std::to_string(bytes) + "B"; };
  const auto generate = [&](int64_t bytes) {
    return run_fathom(
        {"generate", "--model", tiny, "--memory", memory(bytes), "--prompt", "abc", "--max-tokens", "1"});
  };
  const int64_t told = told_smallest(generate(1 << 20).err);
  ASSERT_GT(told, 1 << 20);
  EXPECT_EQ(told_smallest(generate(told / 2).err), told);  // whatever was asked for
  EXPECT_EQ(told_smallest(run_fathom({"inspect", "--model", tiny, "--memory", "1M"}).out), told);
  const Finished run = generate(told);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const Finished inspect = run_fathom({"inspect", "--model", tiny, "--json", "--memory", memory(told)});
  ASSERT_EQ(inspect.exit_code, 0) << inspect.err;
  EXPECT_EQ(parsed(inspect.out)["memory"]["with_budget"]["smallest_budget_bytes"], told);
}

// Here a run's own tables and its tokenizer count.
TEST(Memory, TheReleasedShapeIsToldTheSameSmallestEverywhere) {
  if (sanitized) GTEST_SKIP() << "the process is not of the size that it is otherwise";
  const Finished run = run_fathom({"generate", "--model", released, "--memory", "1M", "--prompt", "abc"});
  const Finished inspect = run_fathom({"inspect", "--model", released, "--memory", "1M"});
  EXPECT_GT(told_smallest(run.err), int64_t{1} << 30);
  EXPECT_EQ(told_smallest(inspect.out), told_smallest(run.err));
}

TEST(Memory, MoreThanTheMachineHasIsRemarkedOn) {
  const Finished run =
      run_fathom({"generate", "--model", tiny, "--memory", "4096T", "--prompt", "abc", "--max-tokens", "1"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("fathom: --memory 4096.0 TiB is more than there is: "));
}

TEST(Memory, ASizeThatIsNoneIsAUsageError) {
  const Finished run = run_fathom({"generate", "--model", tiny, "--memory", "lots", "--prompt", "abc"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("--memory: expected a size such as 16G, 512MiB or 1.5T, found 'lots'"));
}

}  // namespace
}  // namespace fathom
