// Image files of every format to patch levels, against the golden ones.
#include "image/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/checkpoint_builder.h"
#include "tests/support/golden.h"

namespace fathom {
namespace {

using testing::Golden;

const std::string images = FATHOM_SOURCE_DIR "/tests/golden/images/";
constexpr ImageRules rules{14, 3, 256, 84 * 84, std::nullopt};

PreparedImage prepare(const std::string& name, const ImageRules& with = rules) {
  const std::string file = test::read_all(images + name);
  auto prepared = prepare_image(std::as_bytes(std::span(file)), name, with);
  if (!prepared) throw std::runtime_error(prepared.error().message);
  return std::move(*prepared);
}

struct Difference {
  int largest = 0;
  double mean = 0;
};

// Of the golden levels; -1 when sizes differ.
Difference difference(const PreparedImage& prepared, const std::vector<uint8_t>& expected) {
  if (prepared.levels.size() != expected.size()) return {-1, -1};
  Difference out;
  for (size_t i = 0; i < expected.size(); ++i) {
    const int difference = std::abs(prepared.levels[i] - expected[i]);
    out.largest = std::max(out.largest, difference);
    out.mean += difference;
  }
  out.mean /= static_cast<double>(expected.size());
  return out;
}

class GoldenImage : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenImage, HasTheExpectedLevels) {
  const Golden golden("images/expected.safetensors");
  const PreparedImage prepared = prepare(GetParam());
  const ImagePlan& plan = prepared.plan;
  EXPECT_THAT(golden.values<int32_t>(GetParam() + ".grid"),
              ::testing::ElementsAre(plan.patch_rows, plan.patch_cols, plan.grid_rows, plan.grid_cols));
  const Difference found = difference(prepared, golden.values<uint8_t>(GetParam()));
  const bool lossy = GetParam().ends_with(".jpg") || GetParam().ends_with(".webp");
  RecordProperty("largest", found.largest);
  EXPECT_GE(found.largest, 0);
  EXPECT_LE(found.largest, lossy ? 2 : 0);
  EXPECT_LE(found.mean, lossy ? 0.2 : 0.0);
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenImage,
                         ::testing::Values("alpha_77x55.png", "baseline_160x100.jpg", "big_900x700.png",
                                           "exact_126x84.png", "gray_61x90.png", "gray_64x64.jpg",
                                           "lossless_90x90.webp", "palette_50x50.png",
                                           "progressive_101x67.jpg", "rgb_200x120.png",
                                           "rotated_tag_120x60.jpg", "still_40x40.gif", "tall_9x500.png",
                                           "tiny_3x2.png", "wide_700x9.png"));

}  // namespace
}  // namespace fathom
