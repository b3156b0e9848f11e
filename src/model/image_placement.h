// Where images stand in a sequence (spec 5, In the sequence).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/image_embedding.h"

namespace fathom {

/// An image whose span begins at a position of the sequence and takes one position for each of its rows.
struct ImagePlacement {
  int64_t first_position = 0;
  std::shared_ptr<const ImageEmbedding> image;
};

/// The part of an image's span that falls on given positions.
struct ImageRows {
  int64_t first = 0;  // of the given positions, the number of the first that it takes
  TensorRef rows;     // bf16 [rows, dim], at least one
};

/// What `images` put on the positions [begin, end), in their order.
std::vector<ImageRows> image_rows(std::span<const ImagePlacement> images, int64_t begin, int64_t end);

/// Whether `images` fit the tokens `ids` at the positions from `begin` on. Errors: invalid_argument for
/// images that are not in ascending order or that overlap, and for a position of an image with another id
/// than `image_token_id`.
Status check_images(std::span<const ImagePlacement> images, std::span<const int32_t> ids, int64_t begin,
                    int64_t image_token_id);

}  // namespace fathom
