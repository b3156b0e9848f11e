// JPEG, by libjpeg-turbo.

#include <cstdio>  // jpeglib.h needs it
// The order matters to jpeglib.h.
#include <fmt/format.h>
#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>

#include "image/formats.h"

namespace fathom::internal {
namespace {

// Real progressive files have about ten; each costs a pass over the image, however few bytes it takes.
constexpr int max_scans = 100;
// For the library's own buffers: the coefficients of a progressive image, two bytes for each of up to four
// components, and something for edges and the rest.
constexpr int64_t memory_per_pixel = 8;
constexpr int64_t memory_besides = int64_t{64} << 20;

// a * b / 255, rounded to nearest.
uint8_t multiply(int a, int b) { return static_cast<uint8_t>((a * b + 127) / 255); }

// Adobe's inverted inks, which are taken for granted as in Pillow: a level is what is left of the light.
void inks_to_rgb(const uint8_t* inks, uint8_t* rgb, int64_t pixels) {
  for (int64_t i = 0; i < pixels; ++i, inks += 4, rgb += 3)
    for (int c = 0; c < 3; ++c) rgb[c] = multiply(inks[c], inks[3]);
}

// libjpeg reports errors by a jump. Functions that call setjmp, and callbacks, hold nothing with a
// destructor.
class JpegReader {
 public:
  JpegReader() {
    codec_.err = jpeg_std_error(&errors_);
    errors_.error_exit = on_error;
    errors_.output_message = [](j_common_ptr) {};  // warnings: the picture may have faults
    progress_.progress_monitor = on_progress;
    codec_.client_data = this;
  }
  ~JpegReader() { jpeg_destroy_decompress(&codec_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  /// Each gives false after a failure, which error() tells.
  bool read_header(std::span<const std::byte> file) {
    if (setjmp(failed_) != 0) return false;
    jpeg_create_decompress(&codec_);
    codec_.client_data = this;
    codec_.progress = &progress_;
    jpeg_mem_src(&codec_, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    codec_.src->fill_input_buffer = on_end_of_input;
    jpeg_read_header(&codec_, TRUE);
    return true;
  }
  bool read_pixels(uint8_t* pixels) {
    if (setjmp(failed_) != 0) return false;
    const bool inks = codec_.num_components == 4;
    codec_.out_color_space = inks ? JCS_CMYK : JCS_RGB;
    codec_.mem->max_memory_to_use = memory_besides + memory_per_pixel * width() * height();
    jpeg_start_decompress(&codec_);
    JSAMPARRAY line = nullptr;
    if (inks) line = codec_.mem->alloc_sarray(common(), JPOOL_IMAGE, 4 * codec_.output_width, 1);
    while (codec_.output_scanline < codec_.output_height) {
      JSAMPROW row = pixels + 3 * static_cast<size_t>(codec_.output_scanline) * codec_.output_width;
      jpeg_read_scanlines(&codec_, inks ? line : &row, 1);
      if (inks) inks_to_rgb(line[0], row, width());
    }
    return true;
  }

  int64_t width() const { return codec_.image_width; }
  int64_t height() const { return codec_.image_height; }
  int components() const { return codec_.num_components; }
  /// After a failure.
  Error error(std::string_view what) const {
    if (out_of_memory_) return {ErrorCode::out_of_memory, fmt::format("{}: {}", what, message_)};
    return {ErrorCode::format, fmt::format("{}: a damaged JPEG: {}", what, message_)};
  }

 private:
  static JpegReader& reader_of(j_common_ptr codec) { return *static_cast<JpegReader*>(codec->client_data); }
  [[noreturn]] static void on_error(j_common_ptr codec) {
    JpegReader& reader = reader_of(codec);
    (*codec->err->format_message)(codec, reader.message_);
    const int code = codec->err->msg_code;
    // The second comes when the library would pass its limit: it would go on in a file, and has none.
    reader.out_of_memory_ = code == JERR_OUT_OF_MEMORY || code == JERR_NO_BACKING_STORE;
    std::longjmp(reader.failed_, 1);
  }
  [[noreturn]] static void stop(j_common_ptr codec, const char* message) {
    JpegReader& reader = reader_of(codec);
    std::snprintf(reader.message_, sizeof(reader.message_), "%s", message);
    std::longjmp(reader.failed_, 1);
  }
  static void on_progress(j_common_ptr codec) {
    if (reader_of(codec).codec_.input_scan_number > max_scans) stop(codec, "too many scans");
  }
  static boolean on_end_of_input(j_decompress_ptr codec) {
    stop(reinterpret_cast<j_common_ptr>(codec), "truncated");
  }
  j_common_ptr common() { return reinterpret_cast<j_common_ptr>(&codec_); }

  jpeg_decompress_struct codec_ = {};
  jpeg_error_mgr errors_ = {};
  jpeg_progress_mgr progress_ = {};
  std::jmp_buf failed_;
  char message_[JMSG_LENGTH_MAX] = "";
  bool out_of_memory_ = false;
};

}  // namespace

Result<RgbImage> decode_jpeg(std::span<const std::byte> bytes, std::string_view what,
                             const ImageLimits& limits) {
  JpegReader reader;
  if (!reader.read_header(bytes)) return fail(reader.error(what));
  const int components = reader.components();
  if (components != 1 && components != 3 && components != 4)
    return fail(ErrorCode::unsupported, "{}: a JPEG of {} components, expected 1, 3 or 4", what, components);
  FATHOM_ASSIGN(RgbImage image, new_image(reader.width(), reader.height(), what, limits));
  if (!reader.read_pixels(image.pixels.data())) return fail(reader.error(what));
  return image;
}

}  // namespace fathom::internal
