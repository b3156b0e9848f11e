#include "model/image_placement.h"

#include <algorithm>

namespace fathom {

std::vector<ImageRows> image_rows(std::span<const ImagePlacement> images, int64_t begin, int64_t end) {
  std::vector<ImageRows> out;
  for (const ImagePlacement& p : images) {
    const int64_t first = std::max(begin, p.first_position);
    const int64_t last = std::min(end, p.first_position + p.image->tokens());
    if (first < last)
      out.push_back({first - begin, p.image->rows.slice(first - p.first_position, last - first)});
  }
  return out;
}

Status check_images(std::span<const ImagePlacement> images, std::span<const int32_t> ids, int64_t begin,
                    int64_t image_token_id) {
  int64_t free = 0;  // the first position that no image has taken
  for (const ImagePlacement& p : images) {
    FATHOM_CHECK(p.image != nullptr);
    if (p.first_position < free)
      return fail(ErrorCode::invalid_argument, "an image at position {}, expected none before position {}",
                  p.first_position, free);
    free = p.first_position + p.image->tokens();
  }
  for (const ImageRows& r : image_rows(images, begin, begin + static_cast<int64_t>(ids.size()))) {
    for (int64_t i = r.first; i < r.first + r.rows.rows(); ++i) {
      const int32_t id = ids[static_cast<size_t>(i)];
      if (id != image_token_id)
        return fail(ErrorCode::invalid_argument,
                    "position {} of an image: expected token {} (image_token_id), found {}", begin + i,
                    image_token_id, id);
    }
  }
  return {};
}

}  // namespace fathom
