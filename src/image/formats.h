// The decoders behind decode_image, one for each format. For files of src/image only.
//
// Another format takes: a decoder here, which bounds what its library may take; its first bytes in
// decode_image; the library in CMakeLists.txt, scripts/install-packages.sh and docs/dependencies.md; a fuzzer
// with its seeds in scripts/fuzz.sh; golden files, truncations and a bomb in tests/image; its name where help
// texts list formats.
#pragma once

#include "image/decode.h"

namespace fathom::internal {

/// A black image. Its size is checked before memory is taken. Errors: invalid_argument (a side of 0, or past
/// a limit), out_of_memory.
Result<RgbImage> new_image(int64_t width, int64_t height, std::string_view what, const ImageLimits& limits);

/// Each takes a file that begins with its format's magic bytes, and keeps to decode_image's contract.
Result<RgbImage> decode_gif(std::span<const std::byte> bytes, std::string_view what,
                            const ImageLimits& limits);
Result<RgbImage> decode_jpeg(std::span<const std::byte> bytes, std::string_view what,
                             const ImageLimits& limits);
Result<RgbImage> decode_png(std::span<const std::byte> bytes, std::string_view what,
                            const ImageLimits& limits);
Result<RgbImage> decode_webp(std::span<const std::byte> bytes, std::string_view what,
                             const ImageLimits& limits);

}  // namespace fathom::internal
