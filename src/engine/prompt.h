// A prompt with images: each placeholder token becomes the positions that its image takes (spec 5, In the
// sequence).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/image_placement.h"

namespace fathom {

struct Prompt {
  std::vector<int32_t> ids;            // all positions of an image carry the placeholder's id
  std::vector<ImagePlacement> images;  // ascending
};

/// Puts `images` in the places of the tokens `image_token_id` in `ids`, in order. Errors: invalid_argument
/// when there are not as many.
Result<Prompt> place_images(std::span<const int32_t> ids,
                            std::span<const std::shared_ptr<const ImageEmbedding>> images,
                            int32_t image_token_id);

/// Whether both have the same images at the same places before position `end`.
bool same_images(std::span<const ImagePlacement> a, std::span<const ImagePlacement> b, int64_t end);

}  // namespace fathom
