#include "base/size_text.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

TEST(ParseSize, ReadsUnitsOfEverySpelling) {
  const std::pair<const char*, int64_t> cases[] = {
      {"0", 0},
      {"17", 17},
      {"17B", 17},
      {"1k", 1024},
      {"512MiB", int64_t{512} << 20},
      {"512 MB", int64_t{512} << 20},
      {"16G", int64_t{16} << 30},
      {"16gib", int64_t{16} << 30},
      {"1.5T", int64_t{3} << 39},
      {"0.5K", 512},
  };
  for (const auto& [text, bytes] : cases) EXPECT_EQ(parse_size(text).value_or(-1), bytes) << text;
}

TEST(ParseSize, RefusesEverythingElse) {
  for (const char* text : {"", " ", "G", "-1G", "-0", "16X", "16GG", "16 G ", "16Gi B", "1e3", "0x10", "nan",
                           "inf", "4194304T", "16,5G", "1..5G"})
    EXPECT_FALSE(parse_size(text)) << text;
  EXPECT_EQ(parse_size("lots").error().message, "expected a size such as 16G, 512MiB or 1.5T, found 'lots'");
}

TEST(SizeText, PicksTheUnit) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(1536), "1.5 KiB");
  EXPECT_EQ(size_text(int64_t{16} << 30), "16.0 GiB");
  EXPECT_EQ(size_text(int64_t{3000} << 40), "3000.0 TiB");
}

}  // namespace
}  // namespace fathom
