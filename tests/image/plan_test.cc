// Planned sizes against the golden ones, and what has no plan.
#include "image/plan.h"

#include <gtest/gtest.h>

#include "tests/support/golden.h"

namespace fathom {
namespace {

using testing::Golden;

constexpr ImageRules released{14, 3, 1024, 295936, std::nullopt};

TEST(ImagePlan, GoldenSizes) {
  const Golden golden("ops/image_plan_released.safetensors");
  const auto rows = golden.values<int32_t>("width_height_gridh_gridw_pixelh_pixelw");
  ASSERT_EQ(rows.size(), 60u * 6u);
  for (size_t i = 0; i < rows.size(); i += 6) {
    const auto plan = plan_image(rows[i], rows[i + 1], released);
    ASSERT_TRUE(plan) << plan.error().message;
    EXPECT_EQ(plan->grid_rows, rows[i + 2]) << rows[i] << " x " << rows[i + 1];
    EXPECT_EQ(plan->grid_cols, rows[i + 3]) << rows[i] << " x " << rows[i + 1];
    EXPECT_EQ(plan->height, rows[i + 4]) << rows[i] << " x " << rows[i + 1];
    EXPECT_EQ(plan->width, rows[i + 5]) << rows[i] << " x " << rows[i + 1];
    EXPECT_EQ(plan->patch_rows, rows[i + 4] / 14);
    EXPECT_EQ(plan->patch_cols, rows[i + 5] / 14);
    EXPECT_EQ(plan->fit, ImageFit::pad);
    EXPECT_LE(plan->tokens(), released.max_tokens);
  }
}

TEST(ImagePlan, AWideImageIsSqueezed) {
  ImageRules rules = released;
  rules.max_wh_ratio = 2.5;
  const auto capped = plan_image(3000, 600, rules);
  const auto whole = plan_image(1500, 600, released);
  ASSERT_TRUE(capped && whole);
  EXPECT_EQ(capped->width, whole->width);
  EXPECT_EQ(capped->height, whole->height);
  EXPECT_EQ(capped->fit, ImageFit::stretch);
  EXPECT_EQ(plan_image(1500, 600, rules)->fit, ImageFit::stretch);  // the limit itself
  EXPECT_EQ(plan_image(1499, 600, rules)->fit, ImageFit::pad);
}

TEST(ImagePlan, TokensCountMarkersAndLineEnds) {
  const auto plan = plan_image(640, 480, released);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->tokens(), 12 * (16 + 1) + 2);
}

TEST(ImagePlan, RefusesWhatHasNoPlan) {
  for (const auto& [width, height] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 5}, {5, 0}, {-1, 5}, {int64_t{1} << 31, 1}})
    EXPECT_FALSE(plan_image(width, height, released)) << width << " x " << height;
  const auto refused = [](ImageRules rules, int64_t width, int64_t height) {
    const auto plan = plan_image(width, height, rules);
    return !plan && plan.error().code == ErrorCode::invalid_argument && !plan.error().message.empty();
  };
  EXPECT_TRUE(refused({14, 3, 3, 0, std::nullopt}, 100, 100));  // no room for any cell
  EXPECT_TRUE(refused({14, 1, 5, 0, std::nullopt}, 100, 60));   // hardly any height left
  EXPECT_TRUE(refused({14, 3, 1024, 100, 1e-6}, 1, 1));         // hardly any width left
  EXPECT_TRUE(refused({0, 3, 1024, 295936, std::nullopt}, 10, 10));
  EXPECT_TRUE(refused({14, 0, 1024, 295936, std::nullopt}, 10, 10));
  EXPECT_TRUE(refused({14, 3, 1024, 295936, 0.0}, 10, 10));
}

}  // namespace
}  // namespace fathom
