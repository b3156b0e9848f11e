// An image file as the model's vision part takes it (spec 5, Preprocessing).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "image/decode.h"
#include "image/identity.h"
#include "image/plan.h"

namespace fathom {

struct PreparedImage {
  ImagePlan plan;
  /// [patches, 3 * patch * patch]: patches in reading order, each channel, row, column.
  std::vector<uint8_t> levels;
  ImageIdentity identity;
};

/// Decodes a file in memory, fits it into its planned size and cuts it into patches. `what` names it in
/// messages. Errors: those of decode_image and plan_image; invalid_argument (a planned size past `limits`).
Result<PreparedImage> prepare_image(std::span<const std::byte> file, std::string_view what,
                                    const ImageRules& rules, const ImageLimits& limits = {});

/// A level as the model's input, in [-1, 1]; to be rounded to bf16.
constexpr float image_value(uint8_t level) { return (static_cast<float>(level) / 255.0f - 0.5f) / 0.5f; }

}  // namespace fathom
