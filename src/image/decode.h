// Image files to pixels: PNG, JPEG, WebP and the first frame of a GIF (spec 5, Preprocessing).
//
// Pixels are those of Pillow's convert("RGB"): alpha is dropped without blending, palettes and grey are
// expanded; no gamma, no colour profile, no rotation by a tag. Of 16-bit channels the high byte is kept, of
// grey ones too (Pillow's versions differ there). Files are hostile: what they declare is checked before
// memory of that size is taken. A truncated one is an error, and so is damage that the format's library
// takes for one; a JPEG with faults in its data is shown as it comes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fathom {

struct RgbImage {
  int64_t width = 0;
  int64_t height = 0;
  std::vector<uint8_t> pixels;  // [height, width, 3]
};

/// What is refused unseen.
struct ImageLimits {
  int64_t max_bytes = int64_t{64} << 20;  // of the file
  int64_t max_pixels = 64'000'000;
  int64_t max_side = 65'535;
};

/// Decodes a whole file in memory. Its first bytes decide what it is, never its name; `what` names it in
/// messages. Errors: invalid_argument (past a limit), unsupported (no format of these, or a variant without
/// colours), format (damaged or truncated), out_of_memory.
Result<RgbImage> decode_image(std::span<const std::byte> bytes, std::string_view what,
                              const ImageLimits& limits = {});

}  // namespace fathom
