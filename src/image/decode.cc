#include "image/decode.h"

#include <new>
#include <utility>

#include "image/formats.h"

namespace fathom {

using namespace std::string_view_literals;

Result<RgbImage> internal::new_image(int64_t width, int64_t height, std::string_view what,
                                     const ImageLimits& limits) {
  if (width < 1 || height < 1 || width > limits.max_side || height > limits.max_side)
    return fail(ErrorCode::invalid_argument, "{}: {} x {} pixels, expected sides of 1 to {}", what, width,
                height, limits.max_side);
  if (width > limits.max_pixels / height)
    return fail(ErrorCode::invalid_argument, "{}: {} x {} pixels, expected at most {} in all", what, width,
                height, limits.max_pixels);
  RgbImage image{width, height, {}};
  try {
    image.pixels.resize(static_cast<size_t>(3 * width * height));
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "{}: no memory for {} x {} pixels", what, width, height);
  }
  return image;
}

Result<RgbImage> decode_image(std::span<const std::byte> bytes, std::string_view what,
                              const ImageLimits& limits) {
  if (std::cmp_greater(bytes.size(), limits.max_bytes))
    return fail(ErrorCode::invalid_argument, "{}: {} bytes, expected at most {}", what, bytes.size(),
                limits.max_bytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("\x89PNG\r\n\x1a\n"sv)) return internal::decode_png(bytes, what, limits);
  if (text.starts_with("\xff\xd8\xff"sv)) return internal::decode_jpeg(bytes, what, limits);
  if (text.starts_with("GIF87a"sv) || text.starts_with("GIF89a"sv))
    return internal::decode_gif(bytes, what, limits);
  if (text.starts_with("RIFF"sv) && text.substr(0, 12).ends_with("WEBP"sv))
    return internal::decode_webp(bytes, what, limits);
  return fail(ErrorCode::unsupported, "{}: expected a PNG, JPEG, WebP or GIF image, found {}", what,
              text.empty() ? "an empty file" : "something else");
}

}  // namespace fathom
