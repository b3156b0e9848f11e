#include "image/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fathom {
namespace {

// All sides are doubles here, as in the reference: they decide by roundings that integers would not make.
struct Size {
  double width = 0;
  double height = 0;
};

// Caps the width, then enlarges what has too few pixels.
Size adjust(int64_t image_width, int64_t image_height, const ImageRules& rules) {
  Size size{static_cast<double>(image_width), static_cast<double>(image_height)};
  if (rules.max_wh_ratio) size.width = std::min(size.width, size.height * *rules.max_wh_ratio);
  const auto min_pixels = static_cast<double>(rules.min_pixels);
  const double area = size.width * size.height;
  if (area < min_pixels) {
    // pow, because the reference has it: its result may differ from that of sqrt in the last place.
    const double scale = std::pow(min_pixels / area, 0.5);
    size = {std::trunc(size.width * scale), std::trunc(size.height * scale)};
  }
  return size;
}

Size round_up(Size size, double patch) {
  return {std::ceil(size.width / patch) * patch, std::ceil(size.height / patch) * patch};
}

// The size with about the same aspect ratio that costs at most `rules.max_tokens`.
Size shrink(Size size, const ImageRules& rules) {
  const auto patch = static_cast<double>(rules.patch_size);
  const int64_t cell_pixels = rules.patch_size * rules.downsample_ratio;
  const auto cell = static_cast<double>(cell_pixels);
  const double ratio = size.height / size.width;
  const double cols = std::sqrt(static_cast<double>(rules.max_tokens - 2) / ratio + 0.25) - 0.5;
  const double rows = cols * ratio;
  if (cols < 1.0) return {cell, static_cast<double>((rules.max_tokens - 2) / 2 * cell_pixels)};
  if (rows < 1.0) return {static_cast<double>((rules.max_tokens - 3) * cell_pixels), cell};
  const double scale = std::min(std::floor(cols) * cell / size.width, std::floor(rows) * cell / size.height);
  return {std::floor(size.width * scale / patch) * patch, std::floor(size.height * scale / patch) * patch};
}

ImagePlan plan_of(Size size, const ImageRules& rules) {
  const auto divide_up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  ImagePlan plan;
  plan.width = static_cast<int64_t>(size.width);
  plan.height = static_cast<int64_t>(size.height);
  plan.patch_rows = plan.height / rules.patch_size;
  plan.patch_cols = plan.width / rules.patch_size;
  plan.grid_rows = divide_up(plan.patch_rows, rules.downsample_ratio);
  plan.grid_cols = divide_up(plan.patch_cols, rules.downsample_ratio);
  return plan;
}

Status check_arguments(int64_t width, int64_t height, const ImageRules& rules) {
  constexpr int64_t max_side = std::numeric_limits<int32_t>::max();
  if (width < 1 || height < 1 || width > max_side || height > max_side)
    return fail(ErrorCode::invalid_argument, "an image of {} x {} pixels, expected sides of 1 to {}", width,
                height, max_side);
  const bool positive = rules.patch_size > 0 && rules.downsample_ratio > 0 && rules.max_tokens > 0 &&
                        rules.min_pixels >= 0 && rules.max_wh_ratio.value_or(1) > 0;
  if (!positive)
    return fail(
        ErrorCode::invalid_argument,
        "image rules: expected positive numbers, found patches of {}, {} patches a token, {} tokens, {} "
        "pixels and a ratio of {}",
        rules.patch_size, rules.downsample_ratio, rules.max_tokens, rules.min_pixels,
        rules.max_wh_ratio.value_or(1));
  return {};
}

}  // namespace

Result<ImagePlan> plan_image(int64_t width, int64_t height, const ImageRules& rules) {
  FATHOM_TRY(check_arguments(width, height, rules));
  const auto no_room = [&] {
    return fail(ErrorCode::invalid_argument,
                "an image of {} x {} pixels has no room in {} tokens of {} x {} patches of {} pixels", width,
                height, rules.max_tokens, rules.downsample_ratio, rules.downsample_ratio, rules.patch_size);
  };
  constexpr int64_t fewest_tokens = 4;  // of one cell
  if (rules.max_tokens < fewest_tokens) return no_room();
  const Size size = adjust(width, height, rules);
  if (size.width <= 0 || size.height <= 0) return no_room();
  ImagePlan plan = plan_of(round_up(size, static_cast<double>(rules.patch_size)), rules);
  if (plan.tokens() > rules.max_tokens) plan = plan_of(shrink(size, rules), rules);
  if (plan.patches() < 1 || plan.tokens() > rules.max_tokens) return no_room();
  if (rules.max_wh_ratio && static_cast<double>(width) >= *rules.max_wh_ratio * static_cast<double>(height))
    plan.fit = ImageFit::stretch;
  return plan;
}

}  // namespace fathom
