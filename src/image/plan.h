// The size at which the model sees an image, and what it costs in tokens (spec 5, Preprocessing).
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"

namespace fathom {

/// The sizes of the model's vision part, as a checked configuration has them. Sides are in pixels,
/// `downsample_ratio` in patches: a token is that many each way.
struct ImageRules {
  int64_t patch_size = 0;
  int64_t downsample_ratio = 0;
  int64_t max_tokens = 0;              // of one image, markers and line ends included
  int64_t min_pixels = 0;              // a smaller image is enlarged to about this area
  std::optional<double> max_wh_ratio;  // an image wider than this times its height is squeezed
};

enum class ImageFit {
  pad,      // keeps its aspect ratio, centred on grey
  stretch,  // fills the planned size
};

struct ImagePlan {
  int64_t width = 0;  // pixels, multiples of the patch size
  int64_t height = 0;
  int64_t patch_rows = 0;
  int64_t patch_cols = 0;
  int64_t grid_rows = 0;  // tokens, without markers and line ends
  int64_t grid_cols = 0;
  ImageFit fit = ImageFit::pad;

  int64_t patches() const { return patch_rows * patch_cols; }
  /// A token for each cell, one for the end of each row, one before and one after the image.
  int64_t tokens() const { return grid_rows * (grid_cols + 1) + 2; }

  friend bool operator==(const ImagePlan&, const ImagePlan&) = default;
};

/// Plans for an image of `width` x `height` pixels. Errors: invalid_argument (a side that is not 1 to 2^31 -
/// 1; rules that are not positive or that leave the image no room).
Result<ImagePlan> plan_image(int64_t width, int64_t height, const ImageRules& rules);

}  // namespace fathom
