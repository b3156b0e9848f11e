// The vision tower and a prompt with an image on the tiny golden checkpoint (spec 5).
#include <gtest/gtest.h>

#include "tests/support/exact_bounds.h"
#include "tests/support/golden_image.h"

namespace fathom::testing {
namespace {

std::vector<float> floats_of(Ops& ops, const TensorView& tensor) {
  std::vector<bf16> values(static_cast<size_t>(tensor.shape.elements()));
  ops.copy_out(values.data(), tensor);
  std::vector<float> out;
  for (const bf16 v : values) out.push_back(to_float(v));
  return out;
}

// Equal to the bit: noise of f64 sums is far too small to be seen after rounding, but for rare ties.
void expect_equal(const std::vector<float>& got, const std::vector<float>& want, const char* what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  size_t different = 0;
  for (size_t i = 0; i < want.size(); ++i) different += got[i] != want[i];
  EXPECT_EQ(different, 0u) << what << " of " << want.size();
}

TEST(GoldenVision, FeaturesAndEmbeddings) {
  TinyModel tiny(2);
  const GoldenImage golden;
  TraceRecorder trace;
  const auto embedding = TinyModel::take(tiny.model().embed_image(golden.image, {.trace = &trace}));
  const TraceRecorder::Tensor& features = trace.tensors().at("vision.features");
  EXPECT_EQ(features.shape, golden.vision.shape("features"));
  std::vector<float> got(static_cast<size_t>(features.shape.elements()));
  load_floats(features.view(""), 0, features.shape.elements(), got.data());
  expect_equal(got, golden.vision.floats("features"), "features");

  EXPECT_EQ(embedding->grid_rows, golden.grid[2]);
  EXPECT_EQ(embedding->grid_cols, golden.grid[3]);
  const std::vector<int32_t> types = golden.vision.values<int32_t>("types");
  ASSERT_EQ(embedding->tokens(), static_cast<int64_t>(types.size()));

  // The span's rows by their types: markers from the checkpoint, cells from the aligner.
  const int64_t dim = tiny.model().config().dim;
  const std::vector<float> rows = floats_of(tiny.ops(), embedding->rows);
  std::vector<float> cells;
  for (size_t t = 0; t < types.size(); ++t) {
    const std::vector<float> row(rows.begin() + static_cast<int64_t>(t) * dim,
                                 rows.begin() + static_cast<int64_t>(t + 1) * dim);
    if (types[t] == 1) {
      cells.insert(cells.end(), row.begin(), row.end());
      continue;
    }
    const char* marker = types[t] == 0 ? "image_start" : types[t] == 2 ? "image_newline" : "image_end";
    std::vector<float> want(static_cast<size_t>(dim));
    load_floats(tiny.model().tensors().find(marker), 0, dim, want.data());
    EXPECT_EQ(row, want) << marker << " at " << t;
  }
  expect_equal(cells, golden.vision.floats("embeddings"), "embeddings");
}

TEST(GoldenVision, LogitsAndGreedyContinuation) {
  TinyModel tiny(2);
  const GoldenImagePrompt prompt;
  const auto embedding = TinyModel::take(tiny.model().embed_image(GoldenImage().image));
  const ImagePlacement placement{prompt.begin(), embedding};
  Sequence sequence = tiny.sequence();
  const SequenceRows rows{&sequence, prompt.ids, static_cast<int64_t>(prompt.ids.size()), {&placement, 1}};
  const Logits logits = tiny.forward({&rows, 1});
  expect_exact_bounds(logits, prompt.golden.floats("logits"));

  std::vector<int32_t> greedy;
  int32_t next = argmax(logits.row(logits.rows() - 1));
  const std::vector<int32_t> want = prompt.golden.values<int32_t>("greedy");
  while (greedy.size() < want.size()) {
    greedy.push_back(next);
    next = argmax(tiny.forward(sequence, {&next, 1}, 1).row(0));
  }
  EXPECT_EQ(greedy, want);
}

}  // namespace
}  // namespace fathom::testing
