// What SIGINT does to commands that run a model.

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/run_fathom.h"
#include "tests/support/checkpoint_builder.h"

namespace fathom {
namespace {

const std::string tiny = FATHOM_SOURCE_DIR "/tests/golden/tiny/model";

TEST(Interrupt, EndsAnAnswerWithWhatThereIs) {
  RunOptions options;
  options.interrupt_after = 0;
  const Finished run =
      run_fathom({"generate", "--model", tiny, "--prompt", "a", "--max-tokens", "1000000"}, options);
  EXPECT_EQ(run.exit_code, 130);
  EXPECT_EQ(run.err, "fathom: interrupted\n");
  EXPECT_NE(run.out, "");
}

TEST(Interrupt, LeavesNoFileOfLogits) {
  std::string ids = "1";
  for (int i = 0; i < 4000; ++i) ids += ",2";
  RunOptions options;
  options.interrupt_after_processor = 0.3;  // in the midst of computing
  const test::TempDir scratch;
  const Finished run = run_fathom({"logits", "--model", tiny, "--exact", "--memory", "mapped", "--ids", ids,
                                   "--out", (scratch / "out").string()},
                                  options);
  EXPECT_EQ(run.exit_code, 130);
  EXPECT_EQ(run.err, "fathom: interrupted\n");
  EXPECT_FALSE(std::filesystem::exists((scratch / "out").string()));
}

TEST(Interrupt, EndsInspect) {
  RunOptions options;
  options.interrupt_pending = true;
  const Finished run = run_fathom({"inspect", "--model", tiny}, options);
  EXPECT_EQ(run.exit_code, 130);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(run.err, "fathom: interrupted\n");
}

}  // namespace
}  // namespace fathom
