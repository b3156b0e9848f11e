#include "model/manifest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/json.h"
#include "tests/support/checkpoint_builder.h"
#include "tests/support/released_config.h"

namespace fathom {
namespace {

const std::filesystem::path source = FATHOM_SOURCE_DIR;

std::map<std::string, ExpectedTensor> by_name(const ModelConfig& config) {
  std::map<std::string, ExpectedTensor> tensors;
  for (ExpectedTensor& tensor : make_manifest(config)) {
    const std::string name = tensor.name;
    EXPECT_TRUE(tensors.emplace(name, std::move(tensor)).second) << name << " twice";
  }
  return tensors;
}

ModelConfig released() { return *parse_config(test::released_flat_config); }

TEST(Manifest, CountsTheReleasedModel) {
  const std::vector<ExpectedTensor> manifest = make_manifest(released());
  EXPECT_EQ(manifest.size(), 96085u);
  int64_t bytes = 0;
  for (const ExpectedTensor& tensor : manifest) bytes += released_bytes(tensor);
  EXPECT_NEAR(static_cast<double>(bytes) / (1 << 30), 475.2, 0.05);
}

// The names, formats and shapes of checkpoints in the published layout.
TEST(Manifest, MatchesCheckpointsInThePublishedLayout) {
  for (const char* directory : {"tests/golden/tiny/model", "models/demo"}) {
    const auto manifest = by_name(*load_config(source / directory));
    const test::CheckpointBuilder stored(source / directory);
    EXPECT_EQ(manifest.size(), stored.tensors.size());
    for (const test::RawTensor& tensor : stored.tensors) {
      ASSERT_TRUE(manifest.contains(tensor.name)) << tensor.name;
      const ExpectedTensor& expected = manifest.at(tensor.name);
      Shape shape;
      for (const int64_t dim : tensor.shape) shape.push_back(dim);
      EXPECT_EQ(expected.shape, shape) << tensor.name;
      const DType dtype = released_dtype(expected);
      EXPECT_EQ(dtype == DType::e2m1x2 ? "I8" : dtype_name(dtype), tensor.dtype) << tensor.name;
    }
  }
}

TEST(Manifest, HasTheReleasedShapes) {
  const auto manifest = by_name(released());
  const auto shape = [&](const char* name) { return manifest.at(name).shape; };
  EXPECT_EQ(shape("embed.weight"), (Shape{129280, 5120}));
  EXPECT_EQ(shape("layers.0.attn.wq_b.weight"), (Shape{32768, 1280}));
  EXPECT_EQ(shape("layers.0.attn.wq_b.scale"), (Shape{1024, 40}));
  EXPECT_EQ(shape("layers.39.attn.wo_a.weight"), (Shape{8192, 4096}));
  EXPECT_EQ(shape("layers.39.attn.wo_b.weight"), (Shape{5120, 8192}));
  EXPECT_EQ(shape("layers.2.attn.compressor.wgate.weight"), (Shape{512, 5120}));
  EXPECT_EQ(shape("layers.20.attn.indexer.wk.weight"), (Shape{128, 512}));
  EXPECT_EQ(shape("layers.0.ffn.experts.383.w1.weight"), (Shape{2304, 2560}));
  EXPECT_EQ(shape("layers.0.ffn.experts.383.w1.scale"), (Shape{2304, 160}));
  EXPECT_EQ(shape("layers.0.ffn.experts.383.w2.weight"), (Shape{5120, 1152}));
  EXPECT_EQ(shape("layers.0.ffn.experts.383.w2.scale"), (Shape{5120, 72}));
  EXPECT_EQ(shape("layers.0.ffn.shared_experts.w2.scale"), (Shape{160, 72}));
  EXPECT_EQ(shape("layers.5.hc_attn_fn"), (Shape{24, 20480}));
  EXPECT_EQ(shape("layers.14.engram.embed.weight"), (Shape{384016682, 256}));
  EXPECT_EQ(shape("layers.14.engram.embed.scale"), (Shape{384016682, 8}));
  EXPECT_EQ(shape("layers.1.engram.wkv.weight"), (Shape{25600, 6144}));
  EXPECT_EQ(shape("mtp.0.main_proj.weight"), (Shape{5120, 15360}));
  EXPECT_EQ(shape("mtp.2.confidence_head.proj.weight"), (Shape{1, 5376}));
  EXPECT_EQ(shape("vision.patch_embed.proj.weight"), (Shape{1024, 588}));
  EXPECT_EQ(shape("aligner.w1.weight"), (Shape{5120, 9216}));
}

TEST(Manifest, PlacesWhatOnlySomeLayersHave) {
  const auto manifest = by_name(released());
  const auto layers_with = [&](std::string_view part) {
    std::set<int64_t> layers;
    for (int64_t layer = 0; layer < 40; ++layer)
      if (manifest.contains(fmt::format("layers.{}.{}", layer, part))) layers.insert(layer);
    return layers;
  };
  EXPECT_EQ(layers_with("attn.compressor.wkv.weight"), (std::set<int64_t>{2, 8, 14, 20}));
  EXPECT_EQ(layers_with("attn.compressor.wgate.weight"), (std::set<int64_t>{2, 8, 14}));
  EXPECT_EQ(layers_with("attn.indexer.wq_b.weight"), (std::set<int64_t>{2, 8, 14, 20, 24, 28, 32, 36}));
  EXPECT_EQ(layers_with("attn.indexer.k_norm.weight"), (std::set<int64_t>{2, 8, 14, 20}));
  EXPECT_EQ(layers_with("engram.q_weight"), (std::set<int64_t>{1, 14}));
  EXPECT_TRUE(manifest.contains("mtp.0.main_norm.weight"));
  EXPECT_FALSE(manifest.contains("mtp.1.main_norm.weight"));
  EXPECT_TRUE(manifest.contains("mtp.2.norm.weight"));
  EXPECT_FALSE(manifest.contains("mtp.0.norm.weight"));
  EXPECT_FALSE(manifest.contains("mtp.0.ffn.experts.128.w1.weight"));
}

TEST(Manifest, GroupsTensors) {
  const auto manifest = by_name(released());
  const auto group = [&](const char* name) { return manifest.at(name).group; };
  EXPECT_EQ(group("layers.1.engram.embed.scale"), TensorGroup::engram_table);
  EXPECT_EQ(group("layers.1.engram.wkv.weight"), TensorGroup::engram);
  EXPECT_EQ(group("layers.1.ffn.experts.0.w1.scale"), TensorGroup::experts);
  EXPECT_EQ(group("layers.1.ffn.gate.bias"), TensorGroup::gate);
  EXPECT_EQ(group("layers.1.ffn.gate.bias_vl"), TensorGroup::vision);
  EXPECT_EQ(group("mtp.1.attn.wkv.weight"), TensorGroup::draft);
  EXPECT_EQ(group("mtp.1.ffn.gate.bias_vl"), TensorGroup::draft);
  EXPECT_EQ(group("image_newline"), TensorGroup::vision);
  // What is read at start: the scales of dense weights and no others.
  int64_t scanned = 0;
  for (const auto& [name, tensor] : manifest) {
    if (!tensor.dense_scale) continue;
    EXPECT_EQ(tensor.storage, TensorStorage::e8m0);
    EXPECT_EQ(name.find(".experts."), std::string::npos) << name;
    EXPECT_EQ(name.find("engram.embed"), std::string::npos) << name;
    scanned += tensor.shape.elements();
  }
  EXPECT_LT(scanned, 16 << 20);
  for (const auto& [name, tensor] : manifest)
    EXPECT_EQ(name_family(name) == NameFamily::text,
              tensor.group != TensorGroup::draft && tensor.group != TensorGroup::vision)
        << name;
}

TEST(Manifest, LeavesOutWhatIsNotConfigured) {
  Json json = *parse_json(test::released_flat_config, "released");
  json["vision_n_layers"] = 0;
  json["n_mtp_layers"] = 0;
  json["engram_layer_ids"] = Json::array();
  for (const ExpectedTensor& tensor : make_manifest(*parse_config(json.dump()))) {
    EXPECT_EQ(name_family(tensor.name), NameFamily::text) << tensor.name;
    EXPECT_EQ(tensor.name.find("engram"), std::string::npos) << tensor.name;
  }
}

}  // namespace
}  // namespace fathom
