// Decoders against Pillow's convert("RGB"): tests/golden/decode has small files of the kinds that are easy to
// get wrong, and the levels that Pillow 9.4 gives (of 16-bit grey the high bytes).
#include "image/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/image/image_files.h"
#include "tests/support/golden.h"

namespace fathom {
namespace {

using ::testing::HasSubstr;
using namespace testing;

class DecodedImage : public ::testing::TestWithParam<std::string> {};

TEST_P(DecodedImage, HasPillowsLevels) {
  const Golden golden("decode/expected.safetensors");
  const auto image = decode_exactly(image_file("decode/" + GetParam()));
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(golden.shape(GetParam()), (Shape{image->height, image->width, 3}));
  const auto expected = golden.values<uint8_t>(GetParam());
  ASSERT_EQ(image->pixels.size(), expected.size());
  int largest = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    largest = std::max(largest, std::abs(image->pixels[i] - expected[i]));
  const bool exact = GetParam().ends_with(".png") || GetParam().ends_with(".gif");
  EXPECT_LE(largest, exact ? 0 : 2);
}

INSTANTIATE_TEST_SUITE_P(Files, DecodedImage, ::testing::ValuesIn(image_names("decode")),
                         [](const auto& name) {
                           std::string out = name.param;
                           std::replace(out.begin(), out.end(), '.', '_');
                           return out;
                         });

TEST(DecodeImage, TheContentDecidesTheFormat) {
  const std::string file = image_file("decode/no_palette.gif");
  EXPECT_TRUE(decode_image(bytes_of(file), "picture.png"));
}

TEST(DecodeImage, WhatFollowsTheImageIsIgnored) {
  for (const std::string& name : image_names("decode")) {
    const std::string file = image_file("decode/" + name);
    const auto image = decode_exactly(file), longer = decode_exactly(file + "and more");
    ASSERT_TRUE(image && longer) << name;
    EXPECT_EQ(image->pixels, longer->pixels) << name;
  }
}

TEST(DecodeImage, RefusesWhatIsNoImage) {
  using namespace std::string_view_literals;
  for (const std::string_view file :
       {""sv, "\x89"sv, "\x89PNG"sv, "GIF"sv, "RIFF\0\0\0\0WAVE"sv, "BM1234"sv, "\xff\xd8"sv}) {
    const auto image = decode_exactly(file);
    ASSERT_FALSE(image);
    EXPECT_EQ(image.error().code, ErrorCode::unsupported);
    EXPECT_THAT(image.error().message, HasSubstr("test: expected a PNG, JPEG, WebP or GIF"));
  }
}

TEST(DecodeImage, KeepsToTheLimits) {
  const std::string file = image_file("decode/grey_2.png");  // 9 x 7
  ImageLimits limits{static_cast<int64_t>(file.size()), 63, 9};
  EXPECT_TRUE(decode_exactly(file, limits));
  const auto refused = [&](ImageLimits with, const char* part) {
    const auto image = decode_exactly(file, with);
    ASSERT_FALSE(image);
    EXPECT_EQ(image.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(image.error().message, HasSubstr(part));
  };
  refused({limits.max_bytes - 1, 63, 9}, "106 bytes, expected at most 105");
  refused({limits.max_bytes, 62, 9}, "9 x 7 pixels, expected at most 62 in all");
  refused({limits.max_bytes, 63, 8}, "9 x 7 pixels, expected sides of 1 to 8");
}

}  // namespace
}  // namespace fathom
