#include "checkpoint/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

#include "checkpoint/safetensors.h"
#include "tests/support/checkpoint_builder.h"

namespace fathom {
namespace {

using test::read_all;
using test::TempDir;
using test::write_file;
using testing::HasSubstr;

TensorView view(std::string_view name, DType dtype, Shape shape, const char* data) {
  return {reinterpret_cast<const std::byte*>(data), dtype, shape, name};
}

size_t num_files(const TempDir& dir) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(dir.path()), {}));
}

TEST(SafetensorsWriter, WritesTheSpecifiedBytes) {
  const TempDir dir;
  const std::vector<TensorView> tensors{view("b", DType::f32, {1}, "1234"),
                                        view("a", DType::e2m1x2, {2, 1}, "xy")};
  ASSERT_TRUE(write_safetensors(dir / "f", tensors));
  std::string header = R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                       R"("a":{"dtype":"I8","shape":[2,1],"data_offsets":[4,6]}})";
  header.append((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_all(dir / "f"), test::safetensors_bytes(header, "1234xy"));
}

TEST(SafetensorsWriter, ComesBackThroughTheReader) {
  const TempDir dir;
  const std::string data(64, '\x5A');
  const std::vector<TensorView> tensors{
      view("quote\" \\ \n é", DType::bf16, {2, 3}, data.data()), view("scalar", DType::f64, {}, data.data()),
      view("empty", DType::i64, {0, 7}, nullptr), view("scale", DType::e8m0, {4}, data.data())};
  const std::vector<std::pair<std::string, std::string>> metadata{{"format", "pt"}, {"note", "\"x\""}};
  ASSERT_TRUE(write_safetensors(dir / "f", tensors, metadata));
  const auto file = SafetensorsFile::open(dir / "f");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_EQ(file->entries().size(), tensors.size());
  for (const TensorView& expected : tensors) {
    const auto found = file->find(expected.name);
    ASSERT_TRUE(found) << expected.name;
    EXPECT_EQ(found->dtype, expected.dtype);
    EXPECT_EQ(found->shape, expected.shape);
    if (expected.bytes() == 0) continue;
    EXPECT_EQ(std::memcmp(found->data, expected.data, static_cast<size_t>(expected.bytes())), 0);
  }
  EXPECT_TRUE(std::equal(metadata.begin(), metadata.end(), file->metadata().begin(), file->metadata().end()));
}

TEST(SafetensorsWriter, ReplacesAnOldFileWhole) {
  const TempDir dir;
  write_file(dir / "f", std::string(1000, 'o'));
  ASSERT_TRUE(write_safetensors(dir / "f", std::vector{view("a", DType::u8, {1}, "x")}));
  EXPECT_TRUE(SafetensorsFile::open(dir / "f"));
  EXPECT_EQ(num_files(dir), 1u);
}

TEST(SafetensorsWriter, LeavesNothingBehindWhenItFails) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "taken");
  const auto onto_directory = write_safetensors(dir / "taken", std::vector{view("a", DType::u8, {1}, "x")});
  ASSERT_FALSE(onto_directory);
  EXPECT_EQ(onto_directory.error().code, ErrorCode::io);
  EXPECT_THAT(onto_directory.error().message, HasSubstr("taken"));
  EXPECT_EQ(num_files(dir), 1u);
  EXPECT_FALSE(write_safetensors(dir / "none" / "f", {}));
}

TEST(SafetensorsWriter, FollowsLinksAndReplacesOnlyRegularFiles) {
  const TempDir dir;
  const std::vector tensors{view("a", DType::u8, {1}, "x")};
  ASSERT_TRUE(write_safetensors(dir / "target", std::vector{view("b", DType::u8, {1}, "y")}));
  std::filesystem::create_symlink(dir / "target", dir / "link");
  ASSERT_TRUE(write_safetensors(dir / "link", tensors));
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link"));
  EXPECT_TRUE(SafetensorsFile::open(dir / "target")->find("a"));

  std::filesystem::create_symlink(dir / "nowhere", dir / "broken");
  EXPECT_FALSE(write_safetensors(dir / "broken", tensors));
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  const auto onto_fifo = write_safetensors(dir / "fifo", tensors);
  ASSERT_FALSE(onto_fifo);
  EXPECT_THAT(onto_fifo.error().message, HasSubstr("expected a regular file"));
  EXPECT_TRUE(std::filesystem::is_fifo(dir / "fifo"));
  EXPECT_EQ(num_files(dir), 4u);
}

// What long work asks first has the same answer as the writing after it.
TEST(SafetensorsWriter, TellsBeforehandWhereItCannotWrite) {
  const TempDir dir;
  write_file(dir / "old", "o");
  std::filesystem::create_directory(dir / "taken");
  for (const char* good : {"new", "old"}) EXPECT_TRUE(check_writable(dir / good));
  EXPECT_EQ(num_files(dir), 2u);
  for (const char* bad : {"none/f", "taken", "old/f", "taken/"}) {
    const Status before = check_writable(dir / bad);
    const Status after = write_safetensors(dir / bad, std::vector{view("a", DType::u8, {1}, "x")});
    ASSERT_FALSE(before) << bad;
    ASSERT_FALSE(after) << bad;
    EXPECT_EQ(before.error().message, after.error().message);
    EXPECT_EQ(before.error().code, ErrorCode::io);
  }
  EXPECT_EQ(check_writable("").error().message, "cannot write: expected the name of a file, found ''");
  EXPECT_EQ(num_files(dir), 2u);
}

TEST(SafetensorsWriter, RefusesNamesNoReaderCouldTell) {
  const TempDir dir;
  for (const std::string_view name : {std::string_view(""), std::string_view("__metadata__"),
                                      std::string_view("a\0b", 3), std::string_view("\xff")}) {
    const auto written = write_safetensors(dir / "f", std::vector{view(name, DType::u8, {1}, "x")});
    ASSERT_FALSE(written) << name;
    EXPECT_EQ(written.error().code, ErrorCode::invalid_argument);
  }
  EXPECT_FALSE(
      write_safetensors(dir / "f", std::vector{view("a", DType::u8, {1}, "x"), view("b", DType::u8, {1}, "x"),
                                               view("a", DType::u8, {1}, "x")}));
  EXPECT_EQ(num_files(dir), 0u);
}

}  // namespace
}  // namespace fathom
