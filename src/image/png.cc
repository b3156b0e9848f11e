// PNG, by libpng. Of an animated one the image that plain readers see.

#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "image/formats.h"

namespace fathom::internal {
namespace {

// libpng reports errors by a jump. Functions that call setjmp, and callbacks, hold nothing with a destructor.
class PngReader {
 public:
  explicit PngReader(std::span<const std::byte> file) : rest_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  /// Each gives false after a failure, which message() tells.
  bool read_header() {
    if (png_ == nullptr || info_ == nullptr) return false;
    if (setjmp(failed_) != 0) return false;
    png_set_read_fn(png_, this, on_read);
    // Ancillary chunks are passed over: they may inflate to much, and none changes the pixels. The sides are
    // checked by the caller, with a better message.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_read_info(png_, info_);
    return true;
  }
  bool read_pixels(uint8_t* pixels) {
    if (setjmp(failed_) != 0) return false;
    convert_to_rgb();
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    const size_t stride = 3 * static_cast<size_t>(width());
    if (png_get_rowbytes(png_, info_) != stride) png_error(png_, "rows of an unexpected length");
    for (int pass = 0; pass < passes; ++pass)
      for (int64_t row = 0; row < height(); ++row)
        png_read_row(png_, pixels + stride * static_cast<size_t>(row), nullptr);
    return true;
  }

  int64_t width() const { return png_get_image_width(png_, info_); }
  int64_t height() const { return png_get_image_height(png_, info_); }
  const char* message() const { return message_; }

 private:
  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::snprintf(reader.message_, sizeof(reader.message_), "%s", message);
    std::longjmp(reader.failed_, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_read(png_structp png, png_bytep out, size_t length) {
    auto& rest = static_cast<PngReader*>(png_get_io_ptr(png))->rest_;
    if (length > rest.size()) png_error(png, "truncated");
    std::memcpy(out, rest.data(), length);
    rest = rest.subspan(length);
  }

  void convert_to_rgb() {
    const int type = png_get_color_type(png_, info_);
    const int depth = png_get_bit_depth(png_, info_);
    if (type == PNG_COLOR_TYPE_PALETTE) {
      complete_palette(depth);
      png_set_palette_to_rgb(png_);
    }
    if ((type & PNG_COLOR_MASK_COLOR) == 0) {
      if (depth < 8) png_set_expand_gray_1_2_4_to_8(png_);
      png_set_gray_to_rgb(png_);
    }
    if (depth == 16) png_set_strip_16(png_);
    png_set_strip_alpha(png_);
  }
  // Indices past the palette's end are greys, as in Pillow; libpng would have them black.
  void complete_palette(int depth) {
    png_colorp palette = nullptr;
    int count = 0;
    if (png_get_PLTE(png_, info_, &palette, &count) == 0) png_error(png_, "no palette");
    png_color all[256];
    for (int i = 0; i < 256; ++i) {
      const auto level = static_cast<png_byte>(i);
      all[i] = i < count ? palette[i] : png_color{level, level, level};
    }
    png_set_PLTE(png_, info_, all, 1 << depth);
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::span<const std::byte> rest_;
  std::jmp_buf failed_;
  char message_[128] = "out of memory";
};

}  // namespace

Result<RgbImage> decode_png(std::span<const std::byte> bytes, std::string_view what,
                            const ImageLimits& limits) {
  PngReader reader(bytes);
  if (!reader.read_header()) return fail(ErrorCode::format, "{}: a damaged PNG: {}", what, reader.message());
  FATHOM_ASSIGN(RgbImage image, new_image(reader.width(), reader.height(), what, limits));
  if (!reader.read_pixels(image.pixels.data()))
    return fail(ErrorCode::format, "{}: a damaged PNG: {}", what, reader.message());
  return image;
}

}  // namespace fathom::internal
