#include "model/tensor_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "tests/support/checkpoint_builder.h"

namespace fathom {
namespace {

using test::CheckpointBuilder;
using test::TempDir;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::filesystem::path tiny = std::filesystem::path(FATHOM_SOURCE_DIR) / "tests/golden/tiny/model";

// The tiny checkpoint, to be changed before it is opened.
class TensorTableTest : public testing::Test {
 protected:
  struct Bound {
    Checkpoint checkpoint;
    Result<TensorTable> table;
  };

  Bound bind() {
    builder.write(dir_.path(), 2);
    auto checkpoint = Checkpoint::open(dir_.path());
    if (!checkpoint) throw std::runtime_error(checkpoint.error().message);
    auto table = TensorTable::bind(*checkpoint, config);
    return {std::move(*checkpoint), std::move(table)};
  }
  std::string error() {
    const Bound bound = bind();
    return bound.table ? "accepted" : bound.table.error().message;
  }

  CheckpointBuilder builder{tiny};
  ModelConfig config = *load_config(tiny);

 private:
  TempDir dir_;
};

TEST_F(TensorTableTest, BindsEveryTensorOfTheTinyModel) {
  const Bound bound = bind();
  ASSERT_TRUE(bound.table) << bound.table.error().message;
  EXPECT_TRUE(bound.table->draft_available());
  EXPECT_TRUE(bound.table->vision_available());
  EXPECT_EQ(bound.table->size(), builder.tensors.size());
  for (const ExpectedTensor& expected : make_manifest(config)) {
    const TensorView& found = bound.table->find(expected.name);
    EXPECT_EQ(found.name, expected.name);
    EXPECT_EQ(found.shape, expected.shape);
    EXPECT_EQ(found.data, bound.checkpoint.find(expected.name)->data) << "mapped in place";
    EXPECT_EQ(found.dtype == DType::e2m1x2, expected.storage == TensorStorage::packed_fp4);
  }
  EXPECT_EQ(bound.table->try_find("layers.0.nothing"), nullptr);
}

TEST_F(TensorTableTest, ReadsPackedFp4InEverySpelling) {
  builder.at("layers.0.ffn.experts.0.w1.weight").dtype = "U8";
  builder.at("layers.0.ffn.experts.0.w2.weight").dtype = "F4";
  auto& logical = builder.at("layers.0.ffn.experts.1.w1.weight");
  logical.dtype = "F4";
  logical.shape.back() *= 2;
  const Bound bound = bind();
  ASSERT_TRUE(bound.table) << bound.table.error().message;
  for (const char* name : {"layers.0.ffn.experts.0.w1.weight", "layers.0.ffn.experts.0.w3.weight",
                           "layers.0.ffn.experts.1.w1.weight"}) {
    EXPECT_EQ(bound.table->find(name).dtype, DType::e2m1x2);
    EXPECT_EQ(bound.table->find(name).shape, (Shape{96, 64}));
  }
}

TEST_F(TensorTableTest, TakesUnquantizedTensorsInAnyFloatFormat) {
  auto& norm = builder.at("layers.0.attn_norm.weight");
  norm.dtype = "F32";
  norm.bytes.assign(norm.bytes.size() * 2, '\0');
  builder.at("norm.weight").dtype = "F16";
  auto& mix = builder.at("layers.0.hc_attn_scale");
  mix.dtype = "BF16";
  mix.bytes.resize(mix.bytes.size() / 2);
  EXPECT_EQ(error(), "accepted");
  builder.at("norm.weight").dtype = "I16";
  EXPECT_THAT(error(),
              HasSubstr("tensor norm.weight: expected BF16, F32, F16 or F64 [128], found I16 [128]"));
}

TEST_F(TensorTableTest, RefusesQuantizedTensorsInOtherFormats) {
  builder.at("layers.0.attn.wq_a.weight").dtype = "I8";
  builder.at("layers.0.attn.wq_b.scale").dtype = "U8";
  builder.at("layers.0.ffn.experts.0.w1.weight").dtype = "F8_E4M3";
  EXPECT_THAT(error(),
              AllOf(HasSubstr("3 problems"), HasSubstr("wq_a.weight: expected F8_E4M3 [64, 128], found I8"),
                    HasSubstr("wq_b.scale: expected F8_E8M0"),
                    HasSubstr("experts.0.w1.weight: expected packed FP4 (I8, U8 or F4) [96, 64], found F8")));
}

TEST_F(TensorTableTest, NamesFileTensorExpectedAndFound) {
  auto& wkv = builder.at("layers.7.attn.wkv.weight");
  std::swap(wkv.shape[0], wkv.shape[1]);
  EXPECT_THAT(error(),
              AllOf(HasSubstr("model-00002-of-00002.safetensors: tensor layers.7.attn.wkv.weight: expected "
                              "F8_E4M3 [512, 128], found F8_E4M3 [128, 512]"),
                    Not(HasSubstr("problems"))));
}

TEST_F(TensorTableTest, RefusesMissingAndSurplusTextTensors) {
  builder.erase("layers.3.attn_norm.weight");
  builder.tensors.push_back({"layers.3.attn_norm.weight_", "U8", {1}, "x"});
  builder.tensors.push_back({"model.mtp.0.x", "U8", {1}, "x"});
  EXPECT_THAT(
      error(),
      AllOf(HasSubstr("3 problems"),
            HasSubstr("missing tensor layers.3.attn_norm.weight: expected BF16, F32, F16 or F64 [128]"),
            HasSubstr("surplus tensor layers.3.attn_norm.weight_: expected nothing of this name, "
                      "found U8 [1]"),
            HasSubstr("surplus tensor model.mtp.0.x")));
}

// A text tensor that is missing, or spelled otherwise, refuses the checkpoint; others switch their group off.
// A step prime to the layers' regular counts meets every kind.
TEST_F(TensorTableTest, NeedsEveryTextTensor) {
  auto checkpoint = Checkpoint::open(tiny);
  ASSERT_TRUE(checkpoint);
  const std::vector<ExpectedTensor> manifest = make_manifest(config);
  for (size_t i = 0; i < manifest.size(); i += 11) {
    std::vector<ExpectedTensor> renamed = manifest;
    renamed[i].name += "_";
    const auto table = TensorTable::bind(*checkpoint, renamed);
    const NameFamily family = name_family(manifest[i].name);
    ASSERT_EQ(table.has_value(), family != NameFamily::text) << manifest[i].name;
    if (!table) continue;
    EXPECT_EQ(table->draft_available(), family != NameFamily::draft) << manifest[i].name;
    EXPECT_EQ(table->vision_available(), family != NameFamily::vision) << manifest[i].name;
  }
}

TEST_F(TensorTableTest, ListsTwentyProblemsOfMany) {
  std::erase_if(builder.tensors,
                [](const test::RawTensor& tensor) { return tensor.name.starts_with("layers.0."); });
  const std::string message = error();
  EXPECT_THAT(message, AllOf(HasSubstr("problems:"), HasSubstr(" more")));
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 21);
}

TEST_F(TensorTableTest, RunsWithoutDraftWhenItIsDamaged) {
  builder.erase("mtp.1.ffn.shared_experts.w1.weight");
  const Bound bound = bind();
  ASSERT_TRUE(bound.table) << bound.table.error().message;
  EXPECT_FALSE(bound.table->draft_available());
  EXPECT_FALSE(bound.table->available(TensorGroup::draft));
  EXPECT_TRUE(bound.table->available(TensorGroup::attention));
  EXPECT_TRUE(bound.table->vision_available());
  EXPECT_THAT(bound.table->draft_problem(), HasSubstr("missing tensor mtp.1.ffn.shared_experts.w1.weight"));
  EXPECT_EQ(bound.table->try_find("mtp.0.main_norm.weight"), nullptr);
}

TEST_F(TensorTableTest, RunsWithoutVisionWhenItIsDamaged) {
  builder.erase("layers.4.ffn.gate.bias_vl");
  builder.at("image_start").shape = {64, 2};
  builder.tensors.push_back({"vision.extra", "U8", {1}, "x"});
  const Bound bound = bind();
  ASSERT_TRUE(bound.table) << bound.table.error().message;
  EXPECT_TRUE(bound.table->draft_available());
  EXPECT_THAT(bound.table->vision_problem(),
              AllOf(HasSubstr("3 problems"), HasSubstr("missing tensor layers.4.ffn.gate.bias_vl"),
                    HasSubstr("tensor image_start: expected BF16, F32, F16 or F64 [128], found BF16 [64, 2]"),
                    HasSubstr("surplus tensor vision.extra")));
}

TEST_F(TensorTableTest, DraftsWithoutTheImageBiasThatItDoesNotUse) {
  builder.erase("mtp.0.ffn.gate.bias_vl");
  const Bound bound = bind();
  ASSERT_TRUE(bound.table);
  EXPECT_TRUE(bound.table->draft_available()) << bound.table->draft_problem();
  EXPECT_EQ(bound.table->try_find("mtp.0.ffn.gate.bias_vl"), nullptr);
}

TEST_F(TensorTableTest, ToleratesTensorsOfPartsThatAreSwitchedOff) {
  config.vision.reset();
  config.n_mtp_layers = 0;
  Bound bound = bind();
  ASSERT_TRUE(bound.table) << bound.table.error().message;
  EXPECT_EQ(bound.table->draft_problem(), "the configuration has no draft stages");
  EXPECT_EQ(bound.table->vision_problem(), "the configuration has no vision tower");
  std::erase_if(builder.tensors,
                [](const test::RawTensor& tensor) { return name_family(tensor.name) != NameFamily::text; });
  EXPECT_EQ(error(), "accepted");
}

TEST_F(TensorTableTest, RefusesNaNInTheScaleOfADenseWeight) {
  builder.at("layers.0.attn.wo_b.scale").bytes[1] = '\xFF';
  builder.at("layers.1.engram.wkv.scale").bytes.back() = '\xFF';
  EXPECT_THAT(error(),
              AllOf(HasSubstr("2 problems"),
                    HasSubstr("tensor layers.0.attn.wo_b.scale: expected finite scales, found NaN (0xFF) at "
                              "element 1"),
                    HasSubstr("layers.1.engram.wkv.scale")));
}

TEST_F(TensorTableTest, LeavesTheScalesOfExpertsAndTablesAlone) {
  builder.at("layers.0.ffn.experts.0.w1.scale").bytes[0] = '\xFF';
  builder.at("layers.1.engram.embed.scale").bytes[0] = '\xFF';
  EXPECT_EQ(error(), "accepted");
}

TEST_F(TensorTableTest, RunsWithoutDraftWhenADraftScaleIsNaN) {
  builder.at("mtp.0.main_proj.scale").bytes[0] = '\xFF';
  const Bound bound = bind();
  ASSERT_TRUE(bound.table) << bound.table.error().message;
  EXPECT_THAT(bound.table->draft_problem(), HasSubstr("mtp.0.main_proj.scale: expected finite scales"));
}

}  // namespace
}  // namespace fathom
