// Resizing as Pillow does it: bicubic on 8-bit levels, level for level (spec 5, Preprocessing).
#pragma once

#include "image/decode.h"

namespace fathom {

/// `image` resized to `width` x `height`, both at least 1. Bicubic with a = -0.5, the filter widened when
/// shrinking, weights in fixed point with 22 fractional bits, horizontally and then vertically with levels
/// rounded and clipped in between. An axis that keeps its size keeps its levels. Takes the image, and at most
/// `width` times its height in memory besides the result.
RgbImage resize_bicubic(RgbImage image, int64_t width, int64_t height);

/// `image` in the middle of `width` x `height` grey pixels (127), as large as its aspect ratio allows; a side
/// is at least one pixel. Roundings of size and place are to even.
RgbImage fit_on_grey(RgbImage image, int64_t width, int64_t height);

}  // namespace fathom
