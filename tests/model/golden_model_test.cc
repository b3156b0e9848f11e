// The whole text model on the tiny golden checkpoint: logits, greedy continuations and layer traces.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "backend/cpu/cpu_ops.h"
#include "model/model.h"
#include "tests/support/exact_bounds.h"
#include "tests/support/golden.h"
#include "tests/support/tiny_model.h"

namespace fathom::testing {
namespace {

class GoldenModel : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { tiny_ = new TinyModel(2); }
  static void TearDownTestSuite() { delete tiny_; }
  static TinyModel* tiny_;
};
TinyModel* GoldenModel::tiny_ = nullptr;

TEST_F(GoldenModel, LogitsAndGreedyContinuations) {
  for (const char* name : {"one_token", "prompt_48", "prompt_211_repeats", "prompt_301"}) {
    SCOPED_TRACE(name);
    const Golden golden(std::string("tiny/golden/") + name + ".safetensors");
    const std::vector<int32_t> ids = golden.values<int32_t>("input_ids");
    Sequence sequence = tiny_->sequence();
    const Logits logits = tiny_->forward(sequence, ids, static_cast<int64_t>(ids.size()));
    expect_exact_bounds(logits, golden.floats("logits"));
    if (!golden.has("greedy")) continue;
    std::vector<int32_t> greedy;
    int32_t next = argmax(logits.row(logits.rows() - 1));
    const std::vector<int32_t> want = golden.values<int32_t>("greedy");
    while (greedy.size() < want.size()) {
      greedy.push_back(next);
      next = argmax(tiny_->forward(sequence, {&next, 1}, 1).row(0));
    }
    EXPECT_EQ(greedy, want);
  }
}

TEST_F(GoldenModel, TokenMapIsTheGoldenOne) {
  const Golden golden("tiny/golden/prompt_48.safetensors");
  const Result<TokenMap> map = derive_token_map(tiny_->model().tokenizer());
  ASSERT_TRUE(map);
  EXPECT_EQ(map->map, golden.values<int32_t>("token_map"));
}

// Starts every layer from the golden stream of the layer before, so that each is judged alone.
class GoldenStream : public TraceRecorder {
 public:
  explicit GoldenStream(const Golden& golden) : golden_(golden) {}
  void after_layer(int64_t layer, Ops& ops, TensorRef stream, TensorRef pre) override {
    const std::string name = "trace." + std::to_string(layer);
    const std::vector<float> values = golden_.floats(name + ".out");
    std::vector<bf16> rounded(values.size());
    std::transform(values.begin(), values.end(), rounded.begin(), [](float v) { return to_bf16(v); });
    ops.copy_in(stream, rounded.data());
    ops.copy_in(pre, golden_.floats(name + ".pre").data());
  }

 private:
  const Golden& golden_;
};

TEST_F(GoldenModel, TracesLayerByLayer) {
  const Golden golden("tiny/golden/prompt_48.safetensors");
  const std::vector<int32_t> ids = golden.values<int32_t>("input_ids");
  Sequence sequence = tiny_->sequence();
  GoldenStream trace(golden);
  tiny_->forward(sequence, ids, 0, &trace);

  const SafetensorsFile file = SafetensorsFile::open(std::string(FATHOM_SOURCE_DIR) +
                                                     "/tests/golden/tiny/golden/prompt_48.safetensors")
                                   .value();
  size_t compared = 0;
  size_t elements = 0;
  size_t different = 0;
  for (const TensorView& want : file.entries()) {
    if (!want.name.starts_with("trace.")) continue;
    const std::string name(want.name.substr(6));
    ASSERT_TRUE(trace.tensors().contains(name)) << name;
    const TraceRecorder::Tensor& got = trace.tensors().at(name);
    ASSERT_EQ(got.dtype, want.dtype) << name;
    ASSERT_EQ(got.shape, want.shape) << name;
    ++compared;
    if (want.dtype != DType::f32) {
      EXPECT_EQ(std::memcmp(got.data.data(), want.data, got.data.size()), 0) << name;
      continue;
    }
    // Coefficients, scores and router weights are f32 and equal up to f64 noise; bf16 values to the bit.
    const bool rounded = name.ends_with(".out") || name.ends_with("attn_out") || name.ends_with("_kv") ||
                         name.ends_with("index_k");
    for (int64_t i = 0; i < want.shape.elements(); ++i) {
      const float a = load_float(got.view(""), i);
      const float b = load_float(want, i);
      if (!rounded) {
        EXPECT_NEAR(a, b, 3e-7 * std::fabs(b) + 1e-9) << name << " " << i;
        continue;
      }
      ++elements;
      if (a != b) {
        ++different;
        EXPECT_NEAR(a, b, std::fabs(b) / 64 + 1e-3) << name << " " << i;
      }
    }
  }
  EXPECT_EQ(compared, trace.tensors().size());
  // "Bit for bit but for a few elements in 100,000."
  EXPECT_LE(different, elements / 20000) << "of " << elements;
  RecordProperty("different", static_cast<int>(different));
  RecordProperty("elements", static_cast<int>(elements));
}

}  // namespace
}  // namespace fathom::testing
