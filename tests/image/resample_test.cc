// Resizing and fitting where the answer can be worked out by hand; whole images are in prepare_test.cc.
#include "image/resample.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

RgbImage even(int64_t width, int64_t height, uint8_t level) {
  return {width, height, std::vector<uint8_t>(static_cast<size_t>(3 * width * height), level)};
}

// Grey levels as an image.
RgbImage grey(int64_t width, int64_t height, const std::vector<uint8_t>& levels) {
  RgbImage image{width, height, {}};
  for (const uint8_t level : levels) image.pixels.insert(image.pixels.end(), 3, level);
  return image;
}

TEST(ResizeBicubic, TheSameSizeKeepsEveryLevel) {
  RgbImage image = even(5, 4, 9);
  image.pixels[7] = 200;
  EXPECT_EQ(resize_bicubic(image, 5, 4).pixels, image.pixels);
}

TEST(ResizeBicubic, AnEvenImageStaysEven) {
  for (const auto& [width, height] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 50}, {77, 2}, {40, 31}}) {
    const RgbImage image = resize_bicubic(even(9, 13, 201), width, height);
    EXPECT_EQ(image.pixels, even(width, height, 201).pixels) << width << " x " << height;
  }
}

TEST(ResizeBicubic, OvershootIsClipped) {
  // Doubled, samples lie a quarter from the input's: weights -9/128, 111/128, 29/128, -3/128, those beyond
  // the edge left out and the rest scaled up.
  const RgbImage edge = resize_bicubic(grey(4, 1, {0, 0, 255, 255}), 8, 1);
  EXPECT_EQ(edge.pixels, grey(8, 1, {0, 0, 0, 52, 203, 255, 255, 255}).pixels);
}

TEST(ResizeBicubic, EachAxisIsRoundedByItself) {
  const RgbImage image = grey(2, 2, {10, 20, 30, 255});
  const RgbImage by_steps = resize_bicubic(resize_bicubic(image, 5, 2), 5, 7);
  EXPECT_EQ(resize_bicubic(image, 5, 7).pixels, by_steps.pixels);
}

// The rows and columns of `image` that are not all grey: first row, end row, first column, end column.
std::vector<int64_t> extent(const RgbImage& image) {
  std::vector<int64_t> out = {image.height, 0, image.width, 0};
  for (int64_t row = 0; row < image.height; ++row)
    for (int64_t col = 0; col < image.width; ++col) {
      if (image.pixels[static_cast<size_t>(3 * (row * image.width + col))] == 127) continue;
      out = {std::min(out[0], row), std::max(out[1], row + 1), std::min(out[2], col),
             std::max(out[3], col + 1)};
    }
  return out;
}

TEST(FitOnGrey, CentresWithRoundingToEven) {
  using Extent = std::vector<int64_t>;
  EXPECT_EQ(extent(fit_on_grey(even(4, 2, 0), 8, 8)), (Extent{2, 6, 0, 8}));
  EXPECT_EQ(extent(fit_on_grey(even(2, 4, 0), 8, 8)), (Extent{0, 8, 2, 6}));
  EXPECT_EQ(extent(fit_on_grey(even(8, 5, 0), 8, 8)), (Extent{2, 7, 0, 8}));   // 1.5 above: 2
  EXPECT_EQ(extent(fit_on_grey(even(8, 7, 0), 8, 8)), (Extent{0, 7, 0, 8}));   // 0.5 above: 0
  EXPECT_EQ(extent(fit_on_grey(even(16, 5, 0), 8, 8)), (Extent{3, 5, 0, 8}));  // 2.5 high: 2
  EXPECT_EQ(extent(fit_on_grey(even(16, 7, 0), 8, 8)), (Extent{2, 6, 0, 8}));  // 3.5 high: 4
}

TEST(FitOnGrey, ASideHasAtLeastOnePixel) {
  EXPECT_EQ(extent(fit_on_grey(even(1000, 1, 0), 14, 14)), (std::vector<int64_t>{6, 7, 0, 14}));
  EXPECT_EQ(extent(fit_on_grey(even(1, 1000, 0), 14, 14)), (std::vector<int64_t>{0, 14, 6, 7}));
}

}  // namespace
}  // namespace fathom
