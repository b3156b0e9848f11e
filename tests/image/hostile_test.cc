// Files made to do harm: cut off anywhere, of sizes that are not there, or far larger inside than outside.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include "image/decode.h"
#include "image/prepare.h"
#include "tests/image/image_files.h"
#include "tests/image/memory_growth.h"

namespace fathom {
namespace {

using ::testing::HasSubstr;
using namespace testing;
using namespace std::string_literals;

constexpr int64_t memory_bound = 50'000'000;

std::string big_endian(uint32_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>((value >> (8 * i)) & 0xFF);
  return out;
}
std::string little_endian(uint32_t value, int bytes) {
  const std::string reversed = big_endian(value, bytes);
  return {reversed.rbegin(), reversed.rend()};
}

// A real PNG, 1 bit a pixel, all black; with a compressed comment of `comment` zeros.
std::string black_png(uint32_t width, uint32_t height, size_t comment = 0) {
  std::string out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &out,
      [](png_structp p, png_bytep data, size_t length) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<char*>(data), length);
      },
      nullptr);
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_IHDR(png, info, width, height, 1, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_BASE, PNG_FILTER_TYPE_BASE);
  std::string text(comment, '0'), key = "Comment";
  png_text chunk = {};
  chunk.compression = PNG_TEXT_COMPRESSION_zTXt;
  chunk.key = key.data();
  chunk.text = text.data();
  chunk.text_length = text.size();
  if (comment > 0) png_set_text(png, info, &chunk, 1);
  png_write_info(png, info);
  const std::vector<png_byte> row((width + 7) / 8);
  for (uint32_t i = 0; i < height; ++i) png_write_row(png, row.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return out;
}

std::string png_header(uint32_t width, uint32_t height) {
  std::string small = black_png(1, 1);
  std::string chunk = "IHDR" + big_endian(width, 4) + big_endian(height, 4) + small.substr(24, 5);
  // The checksum, as the PNG standard defines it.
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : chunk) {
    crc ^= static_cast<uint8_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320 : 0);
  }
  return small.substr(0, 12) + chunk + big_endian(~crc, 4) + small.substr(33);
}

std::string gif_header(uint32_t width, uint32_t height) {
  const std::string size = little_endian(width, 2) + little_endian(height, 2);
  return "GIF89a" + size + "\x80\0\0\0\0\0\xff\xff\xff"s + "," + "\0\0\0\0"s + size + "\0"s +
         "\x02\x02\x44\x01\0;"s;
}

std::string jpeg_header(uint32_t width, uint32_t height) {
  const std::string size = big_endian(height, 2) + big_endian(width, 2);
  return "\xff\xd8\xff\xc0\0\x11\x08"s + size + "\x03\x01\x11\0\x02\x11\0\x03\x11\0"s +
         "\xff\xda\0\x0c\x03\x01\0\x02\0\x03\0\0\x3f\0"s + std::string(64, '\0') + "\xff\xd9"s;
}

std::string riff(const std::string& chunks) {
  return "RIFF" + little_endian(static_cast<uint32_t>(chunks.size() + 4), 4) + "WEBP" + chunks;
}

// Lossless; sides up to 16384.
std::string webp_header(uint32_t width, uint32_t height) {
  const uint32_t bits = (width - 1) | (height - 1) << 14;
  return riff("VP8L" + little_endian(20, 4) + "\x2f" + little_endian(bits, 4) + std::string(15, '\0'));
}

// An animation's canvas; sides up to 2^24.
std::string webp_canvas(uint32_t width, uint32_t height) {
  const std::string size = little_endian(width - 1, 3) + little_endian(height - 1, 3);
  const std::string image = webp_header(16, 16).substr(12);
  return riff("VP8X" + little_endian(10, 4) + "\x02\0\0\0"s + size + "ANIM" + little_endian(6, 4) +
              "\0\0\0\0\0\0"s + "ANMF" + little_endian(static_cast<uint32_t>(16 + image.size()), 4) +
              std::string(6, '\0') + little_endian(15, 3) + little_endian(15, 3) + std::string(4, '\0') +
              image);
}

void expect_refused_unread(const std::string& file, const std::string& what,
                           const std::string& part = "expected") {
  Result<RgbImage> image;
  const int64_t growth = memory_growth([&] { image = decode_image(bytes_of(file), what); });
  ASSERT_FALSE(image) << what;
  EXPECT_THAT(image.error().message, HasSubstr(part)) << what;
  EXPECT_LT(growth, memory_bound) << what;
}

TEST(HostileImage, EveryTruncationGivesAnErrorOrAnImage) {
  for (const std::string& name : image_names("decode")) {
    const std::string file = image_file("decode/" + name);
    const auto whole = decode_exactly(file);
    ASSERT_TRUE(whole) << name;
    for (size_t size = 0; size < file.size(); ++size) {
      const auto image = decode_exactly(std::string_view(file).substr(0, size));
      if (image) {
        // Only what follows the picture may be missing: no more than this in any of the files but one, which
        // has a second frame.
        EXPECT_TRUE(name == "animated_offset.webp" || size + 12 >= file.size()) << name << ", " << size;
        EXPECT_EQ(image->pixels, whole->pixels) << name << ", " << size;
      } else {
        EXPECT_FALSE(image.error().message.empty());
      }
    }
  }
}

TEST(HostileImage, DeclaredSizesAreCheckedBeforeMemoryIsTaken) {
  expect_refused_unread(png_header(0x7fffffff, 0x7fffffff), "PNG");
  expect_refused_unread(png_header(65535, 65535), "PNG within the sides");
  expect_refused_unread(gif_header(65535, 65535), "GIF");
  expect_refused_unread(jpeg_header(65500, 65500), "JPEG");
  expect_refused_unread(webp_header(16383, 16383), "WebP");
  expect_refused_unread(webp_canvas(65535, 65535), "WebP canvas");
}

TEST(HostileImage, ARealBombIsRefusedUnread) {
  const std::string bomb = black_png(20000, 20000);
  EXPECT_LT(bomb.size(), 100'000u);
  expect_refused_unread(bomb, "bomb", "20000 x 20000 pixels, expected at most 64000000 in all");
}

TEST(HostileImage, CommentsAreNotInflated) {
  const std::string file = black_png(3, 2, 200'000'000);
  EXPECT_LT(file.size(), 1'000'000u);
  Result<RgbImage> image;
  EXPECT_LT(memory_growth([&] { image = decode_image(bytes_of(file), "comment"); }), memory_bound);
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->pixels, std::vector<uint8_t>(18, 0));
}

TEST(HostileImage, ScansAreCounted) {
  const std::string file = image_file("images/progressive_101x67.jpg");
  const size_t scan = file.rfind("\xff\xda"), end = file.rfind("\xff\xd9");
  ASSERT_TRUE(scan < end && end != std::string::npos);
  std::string scans;
  for (int i = 0; i < 5000; ++i) scans += file.substr(scan, end - scan);
  expect_refused_unread(file.substr(0, end) + scans + file.substr(end), "scans", "too many scans");
}

TEST(HostileImage, ASideOfZeroIsRefused) {
  for (const auto& [width, height] : std::vector<std::pair<uint32_t, uint32_t>>{{0, 5}, {5, 0}}) {
    EXPECT_FALSE(decode_exactly(png_header(width, height)));
    EXPECT_FALSE(decode_exactly(gif_header(width, height)));
    EXPECT_FALSE(decode_exactly(jpeg_header(width, height)));
  }
}

TEST(HostileImage, LongAndNarrowOnesTakeLittleMemory) {
  constexpr ImageRules released{14, 3, 1024, 295936, std::nullopt};
  for (const auto& [width, height] : std::vector<std::pair<uint32_t, uint32_t>>{{65535, 1}, {1, 65535}}) {
    const std::string file = black_png(width, height);
    Result<PreparedImage> image;
    EXPECT_LT(memory_growth([&] { image = prepare_image(bytes_of(file), "narrow", released); }),
              memory_bound);
    ASSERT_TRUE(image) << image.error().message;
    EXPECT_LE(image->plan.tokens(), 1024);
  }
}

}  // namespace
}  // namespace fathom
