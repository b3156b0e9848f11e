#include "model/memory_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fathom {
namespace {

using testing::HasSubstr;

constexpr int64_t mebibyte = int64_t{1} << 20;

MemoryNeeds needs() {
  MemoryNeeds n;
  n.process = 10 * mebibyte;
  n.dense = 1000 * mebibyte;
  n.workspace = 50 * mebibyte;
  n.sequence = 20 * mebibyte;
  n.slot = 5 * mebibyte;
  n.num_experts = 1000;
  n.min_slots = 8;
  n.engram_row = 1024;
  n.min_engram_rows = 2048;
  n.engram_staging = 4 * mebibyte;
  n.load_staging = 32 * mebibyte;
  return n;
}
// 10 + 1000 + 50 + 20 + 2 + 4 + 8 * 5
constexpr int64_t smallest = 1126 * mebibyte;

TEST(PlanMemory, TheSmallestBudgetHoldsTheLeast) {
  const auto plan = plan_memory(needs(), smallest);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->num_slots, 8);
  EXPECT_EQ(plan->num_engram_rows, 2048);
  EXPECT_EQ(plan->bytes(), smallest);
}

TEST(PlanMemory, OneByteLessIsRefusedWithAllNumbers) {
  const auto plan = plan_memory(needs(), smallest - 1);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(plan.error().message,
            "1.1 GiB of memory is too little for this model: the smallest that works is 1132M: 1000.0 MiB of "
            "dense weights, 50.0 MiB of activations, 20.0 MiB of sequence state, 6.0 MiB for n-gram rows, 8 "
            "experts of 5.0 MiB, and 16.0 MiB for the process itself");
}

TEST(PlanMemory, TheSmallestThatIsToldWorksInARunThatIsALittleLarger) {
  MemoryNeeds n = needs();
  n.process = 10 * mebibyte + 12345;
  const int64_t told = n.told_budget();
  EXPECT_EQ(told % mebibyte, 0);
  for (const int64_t more : {0, 1, 3, 4}) {
    n.process = (10 + more) * mebibyte + 12345;
    EXPECT_TRUE(plan_memory(n, told)) << more;
  }
  n.process = 10 * mebibyte - 54321;
  EXPECT_EQ(n.told_budget(), told);  // runs that differ a little tell the same
  EXPECT_TRUE(plan_memory(n, n.smallest_budget()));
}

TEST(PlanMemory, RowsAreReadInMoreMemoryWhereThereIsMore) {
  MemoryNeeds n = needs();
  n.max_engram_staging = 24 * mebibyte;
  EXPECT_EQ(n.smallest_budget(), smallest);  // whatever they could use
  EXPECT_EQ(plan_memory(n, smallest)->engram_staging, 4 * mebibyte);
  EXPECT_EQ(plan_memory(n, smallest + 5 * mebibyte)->engram_staging, 9 * mebibyte);
  EXPECT_EQ(plan_memory(n, smallest + 5 * mebibyte)->bytes(), smallest + 5 * mebibyte);
  EXPECT_EQ(plan_memory(n, 1280 * mebibyte)->engram_staging, 20 * mebibyte);  // a 64th
  EXPECT_EQ(plan_memory(n, 8000 * mebibyte)->engram_staging, 24 * mebibyte);
  for (int64_t budget = smallest; budget < 2000 * mebibyte; budget += 12345)
    ASSERT_LE(plan_memory(n, budget)->bytes(), budget);
}

TEST(PlanMemory, TheRestGoesToExpertsAndALittleToRows) {
  const auto plan = plan_memory(needs(), 3200 * mebibyte);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->num_engram_rows, 2048 + 100 * 1024);  // a 32nd: 100 MiB
  EXPECT_EQ(plan->num_slots, 8 + (3200 - 1126 - 100) / 5);
  EXPECT_LE(plan->bytes(), plan->budget);
  EXPECT_DOUBLE_EQ(plan->expert_share(), static_cast<double>(plan->num_slots) / 1000);
}

TEST(PlanMemory, NeverPlansMoreThanTheBudgetNorMoreExpertsThanThereAre) {
  for (int64_t budget = smallest; budget < 8000 * mebibyte; budget += 7 * mebibyte + 12345) {
    const auto plan = plan_memory(needs(), budget);
    ASSERT_TRUE(plan);
    EXPECT_LE(plan->bytes(), budget);
    EXPECT_LE(plan->num_slots, 1000);
  }
  EXPECT_EQ(plan_memory(needs(), 20000 * mebibyte)->num_slots, 1000);
}

TEST(PlanMemory, LoadingNeedsRoomToo) {
  MemoryNeeds n = needs();
  n.load_staging = 500 * mebibyte;
  EXPECT_EQ(n.smallest_budget(), 1510 * mebibyte);
  EXPECT_FALSE(plan_memory(n, smallest));
}

TEST(MemoryHeadroom, IsASixteenthWithinBounds) {
  EXPECT_EQ(memory_headroom(2048 * mebibyte), 256 * mebibyte);
  EXPECT_EQ(memory_headroom(16384 * mebibyte), 1024 * mebibyte);
  EXPECT_EQ(memory_headroom(1000000 * mebibyte), 2048 * mebibyte);
}

TEST(MemoryHeadroom, IsAnEighthOfLittle) {
  EXPECT_EQ(memory_headroom(0), 0);
  EXPECT_EQ(memory_headroom(100 * mebibyte), 100 * mebibyte / 8);
  EXPECT_EQ(memory_headroom(2040 * mebibyte), 255 * mebibyte);
}

}  // namespace
}  // namespace fathom
