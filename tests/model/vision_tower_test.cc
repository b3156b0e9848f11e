// What the vision tower refuses, reports, and does not depend on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/checkpoint_builder.h"
#include "tests/support/golden_image.h"

namespace fathom {
namespace {

using testing::GoldenImage;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TinyModel;

const std::string tiny_directory = std::string(FATHOM_SOURCE_DIR) + "/tests/golden/tiny/model";

std::vector<uint16_t> bits_of(Ops& ops, const ImageEmbedding& embedding) {
  std::vector<uint16_t> bits(static_cast<size_t>(embedding.rows.shape.elements()));
  ops.copy_out(bits.data(), embedding.rows);
  return bits;
}

/// 17 x 16 patches of noise, 6 x 6 cells, ragged on both sides; or said to be of another size.
PreparedImage noise(int64_t rows = 17, int64_t cols = 16) {
  PreparedImage image;
  image.plan.patch_rows = rows;
  image.plan.patch_cols = cols;
  image.plan.grid_rows = (rows - 1) / 3 + 1;
  image.plan.grid_cols = (cols - 1) / 3 + 1;
  image.levels.resize(17 * 16 * 3 * 14 * 14);
  uint32_t state = 1;
  for (uint8_t& level : image.levels)
    level = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return image;
}

TEST(VisionTower, NeitherChunksNorThreadsChangeABit) {
  TinyModel tiny(1);
  const PreparedImage image = noise();
  const auto want = bits_of(tiny.ops(), *TinyModel::take(tiny.model().embed_image(image)));
  EXPECT_EQ(want.size(), static_cast<size_t>((6 * 7 + 2) * tiny.model().config().dim));
  for (const int64_t chunk : {1, 7, 16, 100, 1000}) {
    const VisionTower tower(tiny.model().config(), tiny.model().tensors(), tiny.ops(), chunk);
    EXPECT_EQ(bits_of(tiny.ops(), *TinyModel::take(tower.embed(image))), want) << chunk;
  }
  for (const int threads : {2, 3}) {
    TinyModel many(threads);
    EXPECT_EQ(bits_of(many.ops(), *TinyModel::take(many.model().embed_image(image))), want) << threads;
  }
}

TEST(VisionTower, KeepsTheIdentityAndCountsBlocks) {
  TinyModel tiny(1);
  GoldenImage golden;
  golden.image.identity = ImageIdentity({1, 2, 3});
  std::vector<std::pair<int64_t, int64_t>> seen;
  const auto embedding = TinyModel::take(tiny.model().embed_image(
      golden.image, {.progress = [&](int64_t done, int64_t total) { seen.emplace_back(done, total); }}));
  EXPECT_EQ(embedding->identity, golden.image.identity);
  EXPECT_EQ(seen, (std::vector<std::pair<int64_t, int64_t>>{{0, 2}, {1, 2}, {2, 2}}));
}

TEST(VisionTower, StopsWhereItIsCancelled) {
  TinyModel tiny(1);
  const GoldenImage golden;
  int asked = 0;
  const auto run = [&](int last) {
    asked = 0;
    return tiny.model().embed_image(golden.image, {.cancelled = [&, last] { return ++asked > last; }});
  };
  ASSERT_TRUE(run(1000));
  const int questions = asked;
  EXPECT_GE(questions, 2);
  for (int last = 0; last < questions; ++last) {
    const auto stopped = run(last);
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
    EXPECT_EQ(asked, last + 1);
  }
}

TEST(VisionTower, RefusesSizesThatDoNotFit) {
  TinyModel tiny(1);
  const auto error = [&](int64_t rows, int64_t cols) {
    const auto refused = tiny.model().embed_image(noise(rows, cols));
    if (refused) return std::string("none");
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    return refused.error().message;
  };
  EXPECT_EQ(error(17, 16), "none");
  EXPECT_EQ(error(0, 16), "an image of 0 x 16 patches, expected at least one");
  EXPECT_EQ(error(17, -1), "an image of 17 x -1 patches, expected at least one");
  EXPECT_EQ(error(17, 15), "an image of 17 x 15 patches: expected 149940 levels, found 159936");
  PreparedImage other = noise();
  other.plan.grid_cols = 5;
  const auto refused = tiny.model().embed_image(other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "an image of 17 x 16 patches, expected 6 x 6 cells, found 6 x 5");
  const std::string limit = " patches, expected one that fits max_image_tokens = 64";
  EXPECT_EQ(error(22, 22), "an image of 22 x 22" + limit);
  EXPECT_EQ(error(1, 186), "an image of 1 x 186" + limit);
  EXPECT_THAT(error(3, 183), HasSubstr("levels"));  // 64 tokens: as large as may be
  EXPECT_THAT(error(INT64_MAX, 1), HasSubstr(limit));
  EXPECT_THAT(error(INT64_MAX, INT64_MAX), HasSubstr(limit));
}

TEST(VisionTower, NeedsAWholeVisionGroup) {
  const test::TempDir directory;
  for (const char* file : {"config.json", "tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy(tiny_directory + "/" + file, directory / file);
  test::CheckpointBuilder builder{std::filesystem::path(tiny_directory)};
  builder.erase("vision.blocks.1.attn.wo.bias");
  builder.write(directory.path());
  TinyModel tiny(1, 8, directory.path().string());
  const auto refused = tiny.model().embed_image(GoldenImage().image);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_THAT(refused.error().message, StartsWith("no images: "));
  EXPECT_THAT(refused.error().message, HasSubstr("missing tensor vision.blocks.1.attn.wo.bias"));
}

TEST(VisionTower, ReportsEmbeddingsThatAreNotFinite) {
  const test::TempDir directory;
  for (const char* file : {"config.json", "tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy(tiny_directory + "/" + file, directory / file);
  test::CheckpointBuilder builder{std::filesystem::path(tiny_directory)};
  builder.at("aligner.w2.bias").bytes.replace(0, 2, "\xC0\x7F");  // a NaN
  builder.write(directory.path());
  TinyModel tiny(1, 8, directory.path().string());
  const auto refused = tiny.model().embed_image(GoldenImage().image);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::format);
  EXPECT_THAT(refused.error().message, HasSubstr("not finite"));
}

}  // namespace
}  // namespace fathom
