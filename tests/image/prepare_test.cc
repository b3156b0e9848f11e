// Image files of every format to patch levels, against the golden ones.
#include "image/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/image/image_files.h"
#include "tests/support/golden.h"

namespace fathom {
namespace {

using testing::Golden;

constexpr ImageRules rules{14, 3, 256, 84 * 84, std::nullopt};

PreparedImage prepare(const std::string& name, const ImageRules& with = rules) {
  const std::string file = testing::image_file("images/" + name);
  auto prepared = prepare_image(testing::bytes_of(file), name, with);
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

INSTANTIATE_TEST_SUITE_P(Files, GoldenImage, ::testing::ValuesIn(testing::image_names("images")),
                         [](const auto& name) {
                           std::string out = name.param;
                           std::replace(out.begin(), out.end(), '.', '_');
                           return out;
                         });

TEST(PrepareImage, AWideImageIsStretched) {
  const Golden golden("decode/stretched.safetensors");
  ImageRules squeezing = rules;
  squeezing.max_wh_ratio = 1.2;
  const PreparedImage prepared = prepare("alpha_77x55.png", squeezing);
  EXPECT_EQ(prepared.plan.fit, ImageFit::stretch);
  EXPECT_THAT(golden.values<int32_t>("alpha_77x55.png.grid"),
              ::testing::ElementsAre(prepared.plan.patch_rows, prepared.plan.patch_cols,
                                     prepared.plan.grid_rows, prepared.plan.grid_cols));
  EXPECT_EQ(prepared.levels, golden.values<uint8_t>("alpha_77x55.png"));
}

TEST(PrepareImage, RefusesAPlanPastTheLimit) {
  const std::string file = testing::image_file("images/tiny_3x2.png");
  ImageRules large = rules;
  large.max_tokens = 1 << 20;
  large.min_pixels = 1 << 30;
  const auto prepared = prepare_image(testing::bytes_of(file), "tiny", large);
  ASSERT_FALSE(prepared);
  EXPECT_THAT(prepared.error().message, ::testing::HasSubstr("tiny: a planned size of"));
}

TEST(PrepareImage, ErrorsNameTheFile) {
  const std::string file = testing::image_file("images/tiny_3x2.png");
  ImageRules narrow = rules;
  narrow.max_tokens = 3;
  const auto prepared = prepare_image(testing::bytes_of(file), "tiny", narrow);
  ASSERT_FALSE(prepared);
  EXPECT_THAT(prepared.error().message, ::testing::HasSubstr("tiny: an image of 3 x 2 pixels has no room"));
}

TEST(ImageValue, MapsLevelsToMinusOneToOne) {
  EXPECT_EQ(image_value(0), -1.0f);
  EXPECT_EQ(image_value(255), 1.0f);
  EXPECT_EQ(image_value(127), (127.0f / 255.0f - 0.5f) / 0.5f);
}

TEST(ImageIdentity, IsThatOfBytesAndPlan) {
  const PreparedImage image = prepare("tiny_3x2.png");
  EXPECT_EQ(image.identity, prepare("tiny_3x2.png").identity);
  EXPECT_NE(image.identity, prepare("exact_126x84.png").identity);
  // Other bytes of the same picture.
  const std::string file = testing::image_file("images/tiny_3x2.png") + '\0';
  const auto longer = prepare_image(testing::bytes_of(file), "longer", rules);
  ASSERT_TRUE(longer) << longer.error().message;
  EXPECT_EQ(longer->levels, image.levels);
  EXPECT_NE(longer->identity, image.identity);
  // Each part of the plan counts.
  ImagePlan plan = image.plan;
  plan.fit = ImageFit::stretch;
  EXPECT_NE(identify_image(testing::bytes_of(file), plan), longer->identity);
  for (int64_t ImagePlan::*part : {&ImagePlan::width, &ImagePlan::height, &ImagePlan::patch_rows,
                                   &ImagePlan::patch_cols, &ImagePlan::grid_rows, &ImagePlan::grid_cols}) {
    plan = image.plan;
    plan.*part += 1;
    EXPECT_NE(identify_image(testing::bytes_of(file), plan), longer->identity);
  }
}

TEST(ImageIdentity, IsSha256) {
  // Seven numbers of a plan of zeros, then "abc": printf '%56s' "" | tr ' ' '\0' | cat - <(printf abc) |
  // sha256sum
  const std::string abc = "abc";
  EXPECT_EQ(identify_image(testing::bytes_of(abc), ImagePlan{}).to_hex(),
            "497073b483838cc432d37da437a45b632270dcea4a3cca3d2fdb7ace10a1d293");
  EXPECT_EQ(ImageIdentity{}.to_hex(), std::string(64, '0'));
}

}  // namespace
}  // namespace fathom
