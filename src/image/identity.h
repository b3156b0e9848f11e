// What tells one prepared image from another.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "image/plan.h"

namespace fathom {

/// SHA-256 of an image's plan and its file's bytes: equal exactly when both are. A cryptographic hash,
/// because it is part of the keys under which computed state is shared: nobody may make two images that share
/// it.
class ImageIdentity {
 public:
  using Bytes = std::array<uint8_t, 32>;

  ImageIdentity() = default;  // all zeros: of no image
  explicit ImageIdentity(const Bytes& bytes) : bytes_(bytes) {}

  const Bytes& bytes() const { return bytes_; }
  /// 64 digits, lower case.
  std::string to_hex() const;

  friend bool operator==(const ImageIdentity&, const ImageIdentity&) = default;
  friend std::strong_ordering operator<=>(const ImageIdentity&, const ImageIdentity&) = default;

 private:
  Bytes bytes_{};
};

/// The identity of the image in `file`, a whole file's bytes, when it is seen as planned.
ImageIdentity identify_image(std::span<const std::byte> file, const ImagePlan& plan);

}  // namespace fathom
