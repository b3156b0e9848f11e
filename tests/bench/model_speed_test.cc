// When the measurement of a model ends.
#include "bench/model_speed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/cpu/cpu_ops.h"

namespace fathom::bench {
namespace {

TEST(ModelSpeed, AnInterruptWaitsForAChunkNotForThePrompt) {
  const auto ops = make_exact_cpu_ops(1);
  const auto model = Model::load(FATHOM_SOURCE_DIR "/tests/golden/tiny/model", *ops);
  ASSERT_TRUE(model) << model.error().message;
  int probes = 0;
  QuietGate gate({.now = [] { return 0.0; },
                  .sleep = [](double) {},
                  .probe =
                      [&] {
                        ++probes;
                        return 1.0;
                      }});
  const int calibration = probes;
  int asked = 0;
  const ModelSpeedOptions options{
      .prompt_tokens = 160,
      .chunk_rows = 16,
      .effort = {.seconds = 1000, .clean_samples = 100, .cancelled = [&] { return ++asked > 6; }}};
  const auto speed = measure_model(gate, **model, options, [](std::string_view) {});
  ASSERT_FALSE(speed);
  EXPECT_EQ(speed.error().code, ErrorCode::cancelled);
  EXPECT_LE(probes, calibration + 1);  // another one would have come after a whole prompt
}

TEST(ModelSpeed, APromptThatLeavesNoRoomIsRefused) {
  ModelConfig config;
  config.max_seq_len = 100;
  EXPECT_TRUE(check_prompt_tokens(config, 99));
  const Status full = check_prompt_tokens(config, 100);
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().message, testing::HasSubstr("expected fewer than the model's context of 100"));
}

}  // namespace
}  // namespace fathom::bench
