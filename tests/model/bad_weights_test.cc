// Damage that only a pass can find: scales and values that are read when they are used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/support/tiny_model.h"

namespace fathom {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// A copy of the tiny checkpoint in which the first byte of every tensor that `pattern` matches is `value`.
class BadWeights : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string first_error(const std::string& pattern, uint8_t value, size_t num_bytes = 1) {
    const std::filesystem::path good = std::string(FATHOM_SOURCE_DIR) + "/tests/golden/tiny/model";
    std::filesystem::copy(good, directory_);
    const Checkpoint checkpoint = Checkpoint::open(good).value();
    for (const Checkpoint::Entry& entry : checkpoint.entries()) {
      if (!std::regex_match(std::string(entry.tensor->name), std::regex(pattern))) continue;
      const std::string file(checkpoint.file_of(entry));
      const SafetensorsFile shard = SafetensorsFile::open(good / file).value();
      const auto data_end = static_cast<int64_t>(std::filesystem::file_size(good / file));
      // Views point into a mapping of the whole file: the last byte of its data is the file's last.
      const std::byte* begin = shard.entries().front().data;
      const std::byte* end = begin;
      for (const TensorView& t : shard.entries()) end = std::max(end, t.data + t.bytes());
      const auto offset = data_end - (end - shard.find(entry.tensor->name)->data);
      std::fstream out(directory_ / file, std::ios::in | std::ios::out | std::ios::binary);
      out.seekp(offset);
      for (size_t i = 0; i < num_bytes; ++i) out.put(static_cast<char>(value));
    }
    const auto ops = make_exact_cpu_ops(1);
    const auto model = Model::load(directory_, *ops);
    if (!model) return "at load: " + model.error().message;
    Workspace workspace = (*model)->new_workspace(8).value();
    Sequence sequence = (*model)->new_sequence().value();
    const std::vector<int32_t> ids = {0, 300, 20};
    const SequenceRows rows{&sequence, ids, 1};
    const auto logits = (*model)->forward(workspace, {&rows, 1});
    if (logits) return "none";
    EXPECT_TRUE(sequence.poisoned());
    const auto again = (*model)->forward(workspace, {&rows, 1});
    EXPECT_FALSE(again);
    return logits.error().message;
  }

  std::filesystem::path directory_ =
      std::filesystem::path(::testing::TempDir()) /
      ("bad_weights_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
};

TEST_F(BadWeights, UndamagedCopyRuns) { EXPECT_EQ(first_error("no such tensor", 0), "none"); }

TEST_F(BadWeights, NanScaleOfAnExpert) {
  EXPECT_THAT(first_error(R"(layers\.3\.ffn\.experts\.\d\.w1\.scale)", 0xFF),
              AllOf(StartsWith("model-0000"), HasSubstr(".safetensors: layers.3.ffn.experts."),
                    HasSubstr(".w1.scale: expected E8M0 scales, found NaN (0xFF)")));
}

TEST_F(BadWeights, NanScaleOfATable) {
  EXPECT_THAT(first_error(R"(layers\.1\.engram\.embed\.scale)", 0xFF, 1362),
              HasSubstr("layers.1.engram.embed.scale: expected E8M0 scales, found NaN (0xFF)"));
}

TEST_F(BadWeights, NanScaleOfADenseWeight) {
  EXPECT_THAT(first_error(R"(layers\.2\.attn\.wq_a\.scale)", 0xFF),
              AllOf(StartsWith("at load: "), HasSubstr("layers.2.attn.wq_a.scale")));
}

// A NaN that only a choice would see must not be hidden by it.
TEST_F(BadWeights, NanRouterBias) {
  EXPECT_THAT(first_error(R"(layers\.4\.ffn\.gate\.bias)", 0xFF, 32),
              HasSubstr(".safetensors: layers.4.ffn.gate.weight: expected router scores, found NaN"));
}

TEST_F(BadWeights, NanIndexWeights) {
  EXPECT_THAT(first_error(R"(layers\.5\.attn\.indexer\.weights_proj\.weight)", 0xFF, 1024),
              HasSubstr("expected index scores, found NaN"));
}

// Keys are kept in a format without NaN.
TEST_F(BadWeights, NanIndexKeys) {
  EXPECT_THAT(first_error(R"(layers\.\d\.attn\.indexer\.k_norm\.weight)", 0xFF, 2),
              HasSubstr("expected index scores, found NaN"));
}

TEST_F(BadWeights, NanIndexQueries) {
  EXPECT_THAT(first_error(R"(layers\.\d\.attn\.indexer\.wq_b\.weight)", 0x7F),
              HasSubstr("expected index scores, found NaN"));
}

TEST_F(BadWeights, NanCompressedKeys) {
  EXPECT_THAT(first_error(R"(layers\.\d\.attn\.compressor\.norm\.weight)", 0xFF, 2), HasSubstr("found NaN"));
}

TEST_F(BadWeights, NanWeightIsFoundInTheNextChoice) {
  EXPECT_THAT(first_error(R"(layers\.2\.attn\.wq_a\.weight)", 0x7F), HasSubstr("found NaN"));
}

TEST_F(BadWeights, NanWeightReachesTheLogits) {
  EXPECT_EQ(first_error(R"(norm\.weight)", 0xFF, 2),
            "the logits are not finite: the checkpoint holds NaN or out-of-range weights");
}

}  // namespace
}  // namespace fathom
