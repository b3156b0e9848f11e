#include "image/prepare.h"

#include <utility>

#include "image/resample.h"

namespace fathom {
namespace {

std::vector<uint8_t> cut_patches(const RgbImage& image, const ImagePlan& plan) {
  const int64_t side = plan.width / plan.patch_cols;
  std::vector<uint8_t> levels;
  levels.reserve(image.pixels.size());
  for (int64_t patch = 0; patch < plan.patches(); ++patch) {
    const int64_t top = patch / plan.patch_cols * side, left = patch % plan.patch_cols * side;
    for (int64_t channel = 0; channel < 3; ++channel)
      for (int64_t row = top; row < top + side; ++row)
        for (int64_t col = left; col < left + side; ++col)
          levels.push_back(image.pixels[static_cast<size_t>(3 * (row * image.width + col) + channel)]);
  }
  return levels;
}

}  // namespace

Result<PreparedImage> prepare_image(std::span<const std::byte> file, std::string_view what,
                                    const ImageRules& rules, const ImageLimits& limits) {
  FATHOM_ASSIGN(RgbImage image, decode_image(file, what, limits));
  const Result<ImagePlan> plan = plan_image(image.width, image.height, rules);
  if (!plan) return fail(plan.error().code, "{}: {}", what, plan.error().message);
  if (plan->width > limits.max_pixels / plan->height)
    return fail(ErrorCode::invalid_argument,
                "{}: a planned size of {} x {} pixels, expected at most {} in all", what, plan->width,
                plan->height, limits.max_pixels);
  image = plan->fit == ImageFit::stretch ? resize_bicubic(std::move(image), plan->width, plan->height)
                                         : fit_on_grey(std::move(image), plan->width, plan->height);
  return PreparedImage{*plan, cut_patches(image, *plan), identify_image(file, *plan)};
}

}  // namespace fathom
