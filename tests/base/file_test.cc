#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

#include "tests/support/checkpoint_builder.h"

namespace fathom {
namespace {

using test::TempDir;
using test::write_file;
using testing::HasSubstr;

TEST(ReadFile, GivesTheWholeContentWithZeroBytes) {
  const TempDir dir;
  const std::string content("a\0b\xFF\n", 5);
  const auto read = read_file(write_file(dir / "f", content), 5);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, content);
}

TEST(ReadFile, GivesAnEmptyFile) {
  const TempDir dir;
  const auto read = read_file(write_file(dir / "f", ""), 0);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, "");
}

TEST(ReadFile, RefusesMoreThanTheLimit) {
  const TempDir dir;
  const auto read = read_file(write_file(dir / "f", "123456"), 5);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::format);
  EXPECT_THAT(read.error().message, HasSubstr("6 bytes, expected at most 5"));
}

TEST(ReadFile, TellsAMissingFileFromTheRest) {
  const TempDir dir;
  const auto missing = read_file(dir / "none", 5);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_THAT(missing.error().message, HasSubstr("none"));
  const auto below_a_file = read_file(write_file(dir / "f", "") / "x", 5);
  ASSERT_FALSE(below_a_file);
  EXPECT_EQ(below_a_file.error().code, ErrorCode::io);
}

TEST(ReadFile, RefusesDirectoriesAndPipesWithoutWaiting) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  for (const auto& path : {dir.path(), dir / "pipe"}) {
    const auto read = read_file(path, 5);
    ASSERT_FALSE(read);
    EXPECT_THAT(read.error().message, HasSubstr("expected a regular file"));
  }
}

TEST(MappedFile, ShowsTheContentAndOutlivesTheName) {
  const TempDir dir;
  const std::string content(10000, 'x');
  const auto mapped = MappedFile::open(write_file(dir / "f", content));
  ASSERT_TRUE(mapped) << mapped.error().message;
  std::filesystem::remove(dir / "f");
  const auto bytes = (*mapped)->bytes();
  ASSERT_EQ(bytes.size(), content.size());
  EXPECT_EQ(std::memcmp(bytes.data(), content.data(), content.size()), 0);
  EXPECT_EQ((*mapped)->path(), dir / "f");
}

TEST(MappedFile, MapsAnEmptyFileAsNothing) {
  const TempDir dir;
  const auto mapped = MappedFile::open(write_file(dir / "f", ""));
  ASSERT_TRUE(mapped) << mapped.error().message;
  EXPECT_TRUE((*mapped)->bytes().empty());
}

TEST(MappedFile, RefusesWhatIsNoRegularFile) {
  const TempDir dir;
  const auto missing = MappedFile::open(dir / "none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  const auto directory = MappedFile::open(dir.path());
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().code, ErrorCode::format);
}

}  // namespace
}  // namespace fathom
