#include "model/engram_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "checkpoint/safetensors.h"

namespace fathom {
namespace {

using testing::HasSubstr;

class Golden {
 public:
  explicit Golden(const std::string& name) {
    auto file = SafetensorsFile::open(std::filesystem::path(FATHOM_SOURCE_DIR) / "tests/golden/ops" / name);
    if (!file) throw std::runtime_error(file.error().message);
    file_.emplace(std::move(*file));
  }
  std::vector<int64_t> operator[](std::string_view name) const {
    const auto tensor = file_->find(name);
    if (!tensor || tensor->dtype != DType::i64)
      throw std::runtime_error("no I64 tensor " + std::string(name));
    std::vector<int64_t> values(static_cast<size_t>(tensor->shape.elements()));
    std::memcpy(values.data(), tensor->data, values.size() * sizeof(int64_t));
    return values;
  }

 private:
  std::optional<SafetensorsFile> file_;
};

ModelConfig released() {
  ModelConfig c;
  c.engram_layer_ids = {1, 14};
  c.engram_max_ngram_size = 4;
  c.engram_vocab_size = 16000000;
  c.engram_n_heads = 8;
  c.engram_compressed_vocab_size = 99092;
  return c;
}

ModelConfig small() {
  ModelConfig c;
  c.engram_layer_ids = {0, 3, 7};
  c.engram_max_ngram_size = 3;
  c.engram_vocab_size = 50;
  c.engram_n_heads = 3;
  c.engram_compressed_vocab_size = 7;
  return c;
}

std::vector<int32_t> narrow(const std::vector<int64_t>& ids) { return {ids.begin(), ids.end()}; }

// Rows of all layers as the golden file has them: [position][layer][column].
std::vector<int64_t> all_rows(const EngramLayout& layout, const std::vector<int32_t>& ids, int32_t pad) {
  const auto columns = static_cast<size_t>(layout.columns());
  const auto layers = static_cast<size_t>(layout.num_layers);
  std::vector<int64_t> all(ids.size() * layers * columns);
  for (size_t layer = 0; layer < layers; ++layer) {
    std::vector<int64_t> rows(ids.size() * columns);
    engram_rows(layout, static_cast<int64_t>(layer), ids, 0, pad, rows);
    for (size_t t = 0; t < ids.size(); ++t)
      std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(t * columns), columns,
                  all.begin() + static_cast<std::ptrdiff_t>((t * layers + layer) * columns));
  }
  return all;
}

void expect_golden(const ModelConfig& config, const Golden& golden) {
  const auto layout = make_engram_layout(config);
  ASSERT_TRUE(layout) << layout.error().message;
  EXPECT_EQ(layout->primes, golden["primes"]);
  EXPECT_EQ(layout->multipliers, golden["multipliers"]);
  const auto pad = static_cast<int32_t>(golden["pad"].at(0));
  EXPECT_EQ(all_rows(*layout, narrow(golden["compressed_ids"]), pad), golden["hash_ids"]);
}

TEST(EngramLayout, MatchesTheReleasedValues) {
  const Golden golden("engram_released.safetensors");
  expect_golden(released(), golden);
  const auto layout = make_engram_layout(released());
  EXPECT_EQ(layout->table_rows(0), 384006168);
  EXPECT_EQ(layout->table_rows(1), 384016682);
  EXPECT_EQ(golden["table_rows"], (std::vector<int64_t>{384006168, 384016682}));
}

TEST(EngramLayout, MatchesTheSmallValues) {
  expect_golden(small(), Golden("engram_small.safetensors"));
  // 64-bit integers, which a double would not hold.
  const auto layout = make_engram_layout(small());
  EXPECT_GT(*std::min_element(layout->multipliers.begin(), layout->multipliers.end()), int64_t{1} << 53);
}

TEST(EngramLayout, StartsBucketsAtTheSumsBefore) {
  const auto layout = make_engram_layout(small());
  ASSERT_TRUE(layout);
  EXPECT_THAT(layout->primes, testing::ElementsAre(53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109,
                                                   113, 127, 131, 137));
  EXPECT_THAT(layout->bucket_starts, testing::ElementsAre(0, 53, 112, 173, 240, 311, 0, 79, 162, 251, 348,
                                                          449, 0, 107, 216, 329, 456, 587));
  EXPECT_EQ(layout->table_rows(0), 384);
}

TEST(EngramLayout, StartsAtTheSmallestPrimes) {
  ModelConfig c = small();
  c.engram_vocab_size = 1;
  c.engram_layer_ids = {0};
  EXPECT_THAT(make_engram_layout(c)->primes, testing::ElementsAre(2, 3, 5, 7, 11, 13));
}

TEST(EngramLayout, IsEmptyWithoutLayers) {
  const auto layout = make_engram_layout(ModelConfig{});
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->num_layers, 0);
}

TEST(EngramLayout, RefusesSizesOutOfRange) {
  const auto error = [](auto change) {
    ModelConfig c = small();
    change(c);
    const auto layout = make_engram_layout(c);
    return layout ? "accepted" : layout.error().message;
  };
  for (const int64_t value : {int64_t{0}, int64_t{-1}, INT64_MAX, INT64_MIN}) {
    EXPECT_THAT(error([&](ModelConfig& c) { c.engram_max_ngram_size = value; }), HasSubstr("out of range"));
    EXPECT_THAT(error([&](ModelConfig& c) { c.engram_n_heads = value; }), HasSubstr("out of range"));
    EXPECT_THAT(error([&](ModelConfig& c) { c.engram_vocab_size = value; }), HasSubstr("out of range"));
    EXPECT_THAT(error([&](ModelConfig& c) { c.engram_compressed_vocab_size = value; }),
                HasSubstr("out of range"));
  }
  EXPECT_THAT(error([](ModelConfig& c) {
                c.engram_n_heads = 64;
                c.engram_layer_ids.resize(1000);
              }),
              HasSubstr("at most 4096 buckets"));
}

TEST(EngramLayout, BoundsTheSearchForPrimes) {
  ModelConfig c = small();
  c.engram_vocab_size = int64_t{1} << 40;
  c.engram_n_heads = 64;
  c.engram_layer_ids.resize(32);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(make_engram_layout(c));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

// However a sequence is cut, with the history before each cut, the rows are the same.
TEST(EngramRows, DoNotDependOnCuts) {
  const auto layout = make_engram_layout(small());
  const std::vector<int32_t> ids{3, -1, 1, 2, 6, 5, -1, -1, 0, 4, 4};
  const auto columns = static_cast<size_t>(layout->columns());
  std::vector<int64_t> whole(ids.size() * columns);
  engram_rows(*layout, 1, ids, 0, 4, whole);
  for (size_t cut = 0; cut <= ids.size(); ++cut) {
    // All of the history, and no more of it than is looked back at.
    for (const size_t history : {cut, std::min<size_t>(cut, 2)}) {
      const std::span<const int32_t> tail = std::span(ids).subspan(cut - history);
      std::vector<int64_t> rows((ids.size() - cut) * columns);
      engram_rows(*layout, 1, tail, history, 4, rows);
      EXPECT_TRUE(
          std::equal(rows.begin(), rows.end(), whole.begin() + static_cast<std::ptrdiff_t>(cut * columns)))
          << cut << " " << history;
    }
  }
}

TEST(EngramRows, TakeIdsOutsideTheVocabularyForDead) {
  const auto layout = make_engram_layout(small());
  const std::vector<int32_t> dead{3, -1, 2, 5};
  for (const int32_t id : {7, 8, INT32_MAX, INT32_MIN, -2}) {
    const std::vector<int32_t> ids{3, id, 2, 5};
    EXPECT_EQ(all_rows(*layout, ids, 4), all_rows(*layout, dead, 4)) << id;
  }
}

TEST(EngramRows, StayWithinTheirBuckets) {
  const auto layout = make_engram_layout(released());
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 2000; ++i) ids.push_back(i * 7919 % 99092);
  std::vector<int64_t> rows(ids.size() * 24);
  engram_rows(*layout, 1, ids, 0, 99091, rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t column = 24 + i % 24;
    ASSERT_GE(rows[i], layout->bucket_starts[column]);
    ASSERT_LT(rows[i], layout->bucket_starts[column] + layout->primes[column]);
  }
}

}  // namespace
}  // namespace fathom
