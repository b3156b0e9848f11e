// What every image fuzzer does with its file.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "image/prepare.h"

namespace fathom {

/// Decodes and prepares a file: whatever is accepted has the sizes that it says, within the limits. The file
/// is in memory of exactly its size, so that a read past the end is seen.
inline void check_image(const std::vector<std::byte>& file) {
  constexpr ImageLimits limits{1 << 20, 1 << 14, 4096};
  constexpr ImageRules rules{6, 3, 24, 12 * 12, 3.5};  // plans stay below the limits, too
  const auto image = decode_image(file, "fuzz", limits);
  if (!image) {
    FATHOM_CHECK(!image.error().message.empty() && image.error().message.size() < 2000);
    return;
  }
  FATHOM_CHECK_LE(1, image->width);
  FATHOM_CHECK_LE(1, image->height);
  FATHOM_CHECK_LE(image->width, limits.max_side);
  FATHOM_CHECK_LE(image->height, limits.max_side);
  FATHOM_CHECK_LE(image->width * image->height, limits.max_pixels);
  FATHOM_CHECK_EQ(image->pixels.size(), 3 * image->width * image->height);
  const auto prepared = prepare_image(file, "fuzz", rules, limits);
  FATHOM_CHECK(prepared.has_value());
  FATHOM_CHECK_LE(prepared->plan.tokens(), rules.max_tokens);
  FATHOM_CHECK_EQ(prepared->levels.size(), 3 * prepared->plan.width * prepared->plan.height);
}

/// A copy of the fuzzer's bytes that begins as the format's files do; too short ones give an empty file.
inline std::vector<std::byte> with_magic(const uint8_t* data, size_t size, std::string_view magic) {
  if (size < magic.size()) return {};
  std::vector<std::byte> file(size);
  for (size_t i = 0; i < size; ++i) file[i] = static_cast<std::byte>(i < magic.size() ? magic[i] : data[i]);
  return file;
}

}  // namespace fathom
