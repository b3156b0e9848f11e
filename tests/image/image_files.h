// Image files for tests: those of tests/golden, and what is made of their bytes.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "image/decode.h"
#include "tests/support/checkpoint_builder.h"

namespace fathom::testing {

/// `name` is relative to tests/golden.
inline std::string image_file(const std::string& name) {
  return test::read_all(FATHOM_SOURCE_DIR "/tests/golden/" + name);
}

/// Names of the image files in a folder of tests/golden, in order.
inline std::vector<std::string> image_names(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(FATHOM_SOURCE_DIR "/tests/golden/" + folder))
    if (entry.path().extension() != ".safetensors") names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

inline std::span<const std::byte> bytes_of(const std::string& file) { return std::as_bytes(std::span(file)); }

/// A file's bytes up to the ones given, in memory that ends where they do.
inline Result<RgbImage> decode_exactly(std::string_view file, const ImageLimits& limits = {}) {
  const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(file.data()),
                                     reinterpret_cast<const std::byte*>(file.data()) + file.size());
  return decode_image(bytes, "test", limits);
}

}  // namespace fathom::testing
