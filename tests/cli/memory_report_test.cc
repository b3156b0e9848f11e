// What is measured for a forecast, and what is not.
#include "cli/memory_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fathom {
namespace {

using testing::HasSubstr;

class MeasureBandwidths : public testing::Test {
 protected:
  void SetUp() override {
    const std::string directory = FATHOM_SOURCE_DIR "/tests/golden/tiny/model";
    auto config = load_config(directory);
    ASSERT_TRUE(config);
    config_ = std::move(*config);
    auto checkpoint = Checkpoint::open(directory);
    ASSERT_TRUE(checkpoint);
    checkpoint_.emplace(std::move(*checkpoint));
    auto tensors = TensorTable::bind(*checkpoint_, config_);
    ASSERT_TRUE(tensors);
    tensors_.emplace(std::move(*tensors));
    MemoryOptions options;
    options.budget = int64_t{4} << 30;
    options.max_rows = 1;
    auto tiers = MemoryTiers::open(config_, *checkpoint_, *tensors_, options);
    ASSERT_TRUE(tiers) << tiers.error().message;
    tiers_ = std::move(*tiers);
  }

  ModelConfig config_;
  std::optional<Checkpoint> checkpoint_;
  std::optional<TensorTable> tensors_;
  std::unique_ptr<MemoryTiers> tiers_;
};

TEST_F(MeasureBandwidths, WithTooLittleMemorySaysWhatToDo) {
  const MeasureOptions options{.threads = 1, .left = {int64_t{100} << 20, "/group"}, .cancelled = {}};
  const auto found = measure_bandwidths(*tiers_, {}, options);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->memory, 0);
  EXPECT_EQ(found->disk, 0);
  EXPECT_THAT(found->problem, HasSubstr("--memory-bandwidth"));
  EXPECT_THAT(found->problem, HasSubstr("--disk-bandwidth"));
  EXPECT_THAT(found->problem, HasSubstr("(/group)"));

  const auto forecast = forecast_memory(config_, tiers_->needs(), {int64_t{4} << 30, "x", "", ""}, *found);
  ASSERT_TRUE(forecast) << forecast.error().message;
  EXPECT_EQ(forecast->tokens_per_second(1), 0);
  EXPECT_THAT(to_text(*forecast), HasSubstr("Not measured: "));
  EXPECT_TRUE(to_json(*forecast)["memory_bandwidth"].is_null());
  EXPECT_TRUE(to_json(*forecast)["tokens_per_second"]["uniform"].is_null());

  const auto given = measure_bandwidths(*tiers_, {.memory = 1, .disk = 2}, options);
  ASSERT_TRUE(given);
  EXPECT_EQ(given->problem, "");
}

TEST_F(MeasureBandwidths, CanBeInterrupted) {
  for (const Bandwidths& given : {Bandwidths{}, Bandwidths{.memory = 1}}) {
    int asked = 0;
    const auto found = measure_bandwidths(
        *tiers_, given,
        {.threads = 1, .left = {int64_t{1} << 30, "/group"}, .cancelled = [&] { return ++asked > 1; }});
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, ErrorCode::cancelled);
    EXPECT_EQ(asked, 2);
  }
}

}  // namespace
}  // namespace fathom
