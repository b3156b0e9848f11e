#include "engine/prompt.h"

#include <algorithm>

namespace fathom {

Result<Prompt> place_images(std::span<const int32_t> ids,
                            std::span<const std::shared_ptr<const ImageEmbedding>> images,
                            int32_t image_token_id) {
  const auto places = std::count(ids.begin(), ids.end(), image_token_id);
  if (std::cmp_not_equal(places, images.size()))
    return fail(ErrorCode::invalid_argument,
                "expected as many images as the prompt has places for them ({}), found {}", places,
                images.size());
  Prompt out;
  for (const int32_t id : ids) {
    if (id != image_token_id) {
      out.ids.push_back(id);
      continue;
    }
    const auto& image = images[out.images.size()];
    out.images.push_back({static_cast<int64_t>(out.ids.size()), image});
    out.ids.insert(out.ids.end(), static_cast<size_t>(image->tokens()), id);
  }
  return out;
}

bool same_images(std::span<const ImagePlacement> a, std::span<const ImagePlacement> b, int64_t end) {
  const auto before = [end](std::span<const ImagePlacement> images) {
    return images.first(static_cast<size_t>(std::count_if(
        images.begin(), images.end(), [end](const ImagePlacement& i) { return i.first_position < end; })));
  };
  return std::ranges::equal(before(a), before(b), [](const ImagePlacement& x, const ImagePlacement& y) {
    return x.first_position == y.first_position && x.image->identity == y.image->identity;
  });
}

}  // namespace fathom
