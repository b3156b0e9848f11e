// UTF-8 steps at every boundary of the format, and repair at every split.

#include "text/utf8.h"

#include <gtest/gtest.h>

#include "text/byte_alphabet.h"

namespace fathom {
namespace {

std::string repaired(std::string_view bytes) {
  std::string out;
  append_repaired_utf8(out, bytes);
  return out;
}

TEST(Utf8, EveryCodePoint) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    std::string text;
    append_utf8(text, c);
    const Utf8Step step = utf8_step(text);
    if (c >= 0xD800 && c < 0xE000) {
      ASSERT_EQ(step.kind, Utf8Kind::broken);
      continue;
    }
    ASSERT_EQ(step.kind, Utf8Kind::character);
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(step.size, text.size());
    ASSERT_EQ(find_invalid_utf8(text), std::string::npos);
    ASSERT_EQ(previous_character("é" + text, 2 + text.size()), 2u);
  }
}

// The rows of the Unicode standard's example for replacement by longest parts, and others.
TEST(Utf8, BrokenParts) {
  const std::string r = "\uFFFD";
  EXPECT_EQ(repaired("a\xC0\xAF\xE0\x80\xBF\xF0\x81\x82"
                     "A"),
            "a" + r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(repaired("\xED\xA0\x80\xED\xBF\xBF\xED\xAF"
                     "A"),
            r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(repaired("\xF4\x91\x92\x93\xFF"
                     "A\x80\xBF"
                     "B"),
            r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(repaired("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
                     "A"),
            r + r + r + r + "A");
  EXPECT_EQ(repaired("\xF0\x9F\x98"), r);
  EXPECT_EQ(repaired("\xF5"), r);
  EXPECT_EQ(repaired(std::string_view("\0x", 2)), std::string("\0x", 2));
}

TEST(Utf8, UnfinishedEndIsHeldBack) {
  const std::string text = "aé中😀";
  for (size_t size = 0; size <= text.size(); ++size) {
    std::string out;
    const size_t read = append_finished_utf8(out, std::string_view(text).substr(0, size));
    EXPECT_EQ(out, text.substr(0, read));
    EXPECT_LT(size - read, 4u);
    out += text.substr(read);
    EXPECT_EQ(out, text);
  }
}

TEST(ByteAlphabet, RoundTrip) {
  std::string all, spelled;
  for (int byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
    spelled += byte_level_character(static_cast<uint8_t>(byte));
  }
  EXPECT_EQ(byte_level_decode(spelled), all);
  EXPECT_EQ(byte_level_character(' '), "Ġ");
  EXPECT_EQ(byte_level_character('\n'), "Ċ");
  EXPECT_EQ(byte_level_character(0xAD), "\u0143");  // the last of those moved
  EXPECT_EQ(byte_level_decode("Ġ｜"), "Ġ｜");       // not of the alphabet: itself
  EXPECT_EQ(byte_level_decode("a b"), "a b");
}

}  // namespace
}  // namespace fathom
