// Image files of the command line.
#pragma once

#include <filesystem>
#include <string>

#include "base/file.h"
#include "image/prepare.h"
#include "model/config.h"

namespace fathom {

/// An image file's bytes, not yet decoded. A file above `limits.max_bytes` is refused unread. Errors name the
/// path: those of read_file.
inline Result<std::string> read_image_file(const std::filesystem::path& path,
                                           const ImageLimits& limits = {}) {
  return read_file(path, static_cast<uint64_t>(limits.max_bytes));
}

/// The sizes that the configuration's vision part gives to images.
inline ImageRules image_rules(const VisionConfig& vision) {
  return {vision.patch_size, vision.downsample_ratio, vision.max_n_token, vision.min_pixels,
          vision.max_wh_ratio};
}

}  // namespace fathom
