// The image of the golden files and the prompt it stands in.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "tests/support/golden.h"
#include "tests/support/tiny_model.h"

namespace fathom::testing {

struct GoldenImage {
  Golden vision{"tiny/golden/vision_150x97.safetensors"};
  std::vector<int32_t> grid = vision.values<int32_t>("grid");  // patch rows, columns, cell rows, columns
  PreparedImage image;

  GoldenImage() {
    image.plan = {.width = grid[1] * 14,
                  .height = grid[0] * 14,
                  .patch_rows = grid[0],
                  .patch_cols = grid[1],
                  .grid_rows = grid[2],
                  .grid_cols = grid[3]};
    for (const float x : vision.floats("patches"))
      image.levels.push_back(static_cast<uint8_t>(std::rint((x * 0.5f + 0.5f) * 255)));
  }
};

struct GoldenImagePrompt {
  Golden golden{"tiny/golden/image_prompt.safetensors"};
  std::vector<int32_t> ids = golden.values<int32_t>("input_ids");
  std::vector<int32_t> types = golden.values<int32_t>("token_types");  // -1: text

  /// Where the span begins, and where the text after it does.
  int64_t begin() const {
    return std::find_if(types.begin(), types.end(), [](int32_t t) { return t >= 0; }) - types.begin();
  }
  int64_t end() const {
    return static_cast<int64_t>(types.size()) -
           (std::find_if(types.rbegin(), types.rend(), [](int32_t t) { return t >= 0; }) - types.rbegin());
  }
};

}  // namespace fathom::testing
