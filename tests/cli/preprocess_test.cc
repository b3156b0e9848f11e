// preprocess through the program: the golden levels, their values, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "tensor/bfloat16.h"
#include "tests/cli/run_fathom.h"
#include "tests/support/checkpoint_builder.h"
#include "tests/support/golden.h"

namespace fathom {
namespace {

using test::TempDir;
using ::testing::HasSubstr;

const std::string images = FATHOM_SOURCE_DIR "/tests/golden/images/";
const std::string demo = FATHOM_SOURCE_DIR "/models/demo";  // has the sizes of the golden images

template <class T>
std::vector<T> values(const SafetensorsFile& file, const std::string& name, DType dtype) {
  const auto view = file.find(name);
  if (!view || view->dtype != dtype) throw std::runtime_error("no such tensor: " + name);
  std::vector<T> out(static_cast<size_t>(view->shape.elements()));
  std::memcpy(out.data(), view->data, out.size() * sizeof(T));
  return out;
}

TEST(Preprocess, WritesTheGoldenLevels) {
  const TempDir scratch;
  const Finished run = run_fathom({"preprocess", images + "rgb_200x120.png", images + "still_40x40.gif",
                                   "--model", demo, "--out", scratch / "out"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out + run.err, "");
  const auto out = SafetensorsFile::open(scratch / "out");
  ASSERT_TRUE(out) << out.error().message;
  EXPECT_EQ(out->entries().size(), 6u);
  const testing::Golden golden("images/expected.safetensors");
  for (const std::string name : {"rgb_200x120.png", "still_40x40.gif"}) {
    const auto levels = values<uint8_t>(*out, name, DType::u8);
    EXPECT_EQ(out->find(name)->shape, golden.shape(name));
    EXPECT_EQ(levels, golden.values<uint8_t>(name));
    EXPECT_EQ(values<int32_t>(*out, name + ".grid", DType::i32), golden.values<int32_t>(name + ".grid"));
    EXPECT_EQ(out->find(name + ".patches")->shape, golden.shape(name));
    const auto patches = values<bf16>(*out, name + ".patches", DType::bf16);
    ASSERT_EQ(patches.size(), levels.size());
    for (size_t i = 0; i < levels.size(); ++i)
      ASSERT_EQ(patches[i], to_bf16((static_cast<float>(levels[i]) / 255.0f - 0.5f) / 0.5f)) << i;
  }
}

TEST(Preprocess, TwoFilesOfOneNameAreAUsageError) {
  const Finished run =
      run_fathom({"preprocess", "one/x.png", "other/x.png", "--model", demo, "--out", "/tmp/x"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("one/x.png and other/x.png"));
  const Finished grid =
      run_fathom({"preprocess", "one/x", "other/x.grid", "--model", demo, "--out", "/tmp/x"});
  EXPECT_EQ(grid.exit_code, 2);
  EXPECT_THAT(grid.err, HasSubstr("one/x and other/x.grid"));
}

TEST(Preprocess, NamesThatNoTensorCanHaveAreUsageErrors) {
  for (const char* name : {"__metadata__", "a\xff.png", "directory/"}) {
    const Finished run = run_fathom({"preprocess", name, "--model", demo, "--out", "/tmp/x"});
    EXPECT_EQ(run.exit_code, 2) << name;
    EXPECT_THAT(run.err, HasSubstr("a name that a tensor can have"));
  }
}

TEST(Preprocess, NeverWritesOverAnImage) {
  const TempDir scratch;
  std::filesystem::copy(images + "tiny_3x2.png", scratch / "x.png");
  const std::string before = test::read_all(scratch / "x.png");
  const Finished run =
      run_fathom({"preprocess", scratch / "x.png", "--model", demo, "--out", scratch / "x.png"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_EQ(test::read_all(scratch / "x.png"), before);
}

TEST(Preprocess, RefusesWhatIsNoImage) {
  const TempDir scratch;
  test::write_file(scratch / "text.png", "not an image");
  const Finished run =
      run_fathom({"preprocess", scratch / "text.png", "--model", demo, "--out", scratch / "out"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("text.png: expected a PNG, JPEG, WebP or GIF"));
  EXPECT_FALSE(std::filesystem::exists(scratch / "out"));
}

TEST(Preprocess, RefusesALargeFileUnread) {
  const TempDir scratch;
  test::write_file(scratch / "big.png", "");
  std::filesystem::resize_file(scratch / "big.png", uint64_t{1} << 40);
  const Finished run =
      run_fathom({"preprocess", scratch / "big.png", "--model", demo, "--out", scratch / "out"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("big.png: 1099511627776 bytes, expected at most 67108864"));
}

TEST(Preprocess, RefusesAModelWithoutVision) {
  const TempDir scratch;
  std::string config = test::read_all(demo + "/config.json");
  config.replace(config.find("\"vision_config\""), 15, "\"other_part\"");
  test::write_file(scratch / "config.json", config);
  const Finished run = run_fathom(
      {"preprocess", images + "rgb_200x120.png", "--model", scratch.path(), "--out", scratch / "out"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("vision"));
}

}  // namespace
}  // namespace fathom
