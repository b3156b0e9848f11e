// Which experts stay, which go, and what is read, on a checkpoint of three layers with ten small experts
// each.
#include "model/expert_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "tests/support/checkpoint_builder.h"

namespace fathom {
namespace {

using test::CheckpointBuilder;
using test::TempDir;
using testing::HasSubstr;

constexpr int num_layers = 3;
constexpr int num_experts = 10;
constexpr size_t tensor_bytes = 3000;  // no multiple of anything

std::string name_of(int layer, int expert, const char* tensor) {
  return fmt::format("layers.{}.ffn.experts.{}.{}", layer, expert, tensor);
}

// Reads that seem to be under way still, the first times that someone asks.
class LateReader final : public AsyncReader {
 public:
  explicit LateReader(std::unique_ptr<AsyncReader> reader) : reader_(std::move(reader)) {}
  void deny(int times) { denials_ = times; }

  std::string_view name() const override { return reader_->name(); }
  Ticket submit(std::span<const ReadRequest> requests, ReadUrgency urgency) override {
    return reader_->submit(requests, urgency);
  }
  void hurry(Ticket ticket) override { reader_->hurry(ticket); }
  bool done(Ticket ticket) const override {
    if (denials_-- > 0) return false;
    reader_->wait_any({&ticket, 1});
    return true;
  }
  Status wait(Ticket ticket) override { return reader_->wait(ticket); }
  void wait_any(std::span<const Ticket> tickets) override { reader_->wait_any(tickets); }

 private:
  std::unique_ptr<AsyncReader> reader_;
  mutable int denials_ = 0;
};

class ExpertCacheTest : public testing::Test {
 protected:
  static constexpr const char* tensors[] = {"w1.weight", "w1.scale",  "w3.weight",
                                            "w3.scale",  "w2.weight", "w2.scale"};

  // Each tensor is filled with a letter of its own.
  void SetUp() override {
    CheckpointBuilder builder;
    for (int l = 0; l < num_layers; ++l)
      for (int e = 0; e < num_experts; ++e)
        for (const char* tensor : tensors)
          builder.tensors.push_back({name_of(l, e, tensor),
                                     "U8",
                                     {1, tensor_bytes},
                                     std::string(tensor_bytes, static_cast<char>(builder.tensors.size()))});
    builder.write(dir_.path(), 2);
    checkpoint_ = std::make_unique<Checkpoint>(Checkpoint::open(dir_.path()).value());
    shards_ = open_direct(*checkpoint_).value();
    reader_ = AsyncReader::create().value();
  }

  void make_cache(int64_t slots) {
    cache_ = std::make_unique<ExpertCache>(*checkpoint_, shards_, *reader_);
    for (int l = 0; l < num_layers; ++l) {
      std::vector<ExpertWeights> experts;
      for (int e = 0; e < num_experts; ++e) {
        const auto weight = [&](int i) {
          return Weight{*checkpoint_->find(name_of(l, e, tensors[i])),
                        *checkpoint_->find(name_of(l, e, tensors[i + 1])), fp4_weight_block};
        };
        experts.push_back({weight(0), weight(4), weight(2)});
      }
      EXPECT_EQ(cache_->add_layer(std::move(experts)), l);
    }
    ASSERT_TRUE(cache_->reserve(slots));
    for (int l = 0; l < num_layers; ++l) sources_[l] = cache_->source(l);
  }

  void TearDown() override {
    sources_.clear();
    reader_.reset();
  }

  // Compares an expert in memory with the file.
  void check(int layer, const LoadedExpert& e) {
    const ExpertWeights& w = *e.weights;
    const TensorView* views[] = {&w.w1.data, &w.w1.scale, &w.w3.data, &w.w3.scale, &w.w2.data, &w.w2.scale};
    for (int i = 0; i < 6; ++i) {
      const TensorView* expected = checkpoint_->find(name_of(layer, e.index, tensors[i]));
      EXPECT_EQ(views[i]->name, expected->name);
      EXPECT_EQ(std::memcmp(views[i]->data, expected->data, tensor_bytes), 0) << expected->name;
    }
  }

  /// Takes experts to the end; what came, batch after batch.
  std::vector<int32_t> use(int layer, std::vector<int32_t> experts) {
    const auto lease = sources_[layer]->take(experts);
    std::vector<int32_t> came;
    for (;;) {
      const auto batch = lease->next();
      EXPECT_TRUE(batch) << batch.error().message;
      if (!batch || batch->empty()) break;
      for (const LoadedExpert& e : *batch) {
        check(layer, e);
        came.push_back(e.index);
      }
    }
    std::sort(came.begin(), came.end());
    EXPECT_EQ(came, experts);
    return came;
  }

  /// How many of these must be read.
  int64_t misses_of(int layer, std::vector<int32_t> experts) {
    const int64_t before = cache_->counters().misses;
    use(layer, std::move(experts));
    return cache_->counters().misses - before;
  }

  TempDir dir_;
  std::unique_ptr<Checkpoint> checkpoint_;
  DirectShards shards_;
  std::unique_ptr<ExpertCache> cache_;
  std::unique_ptr<AsyncReader> reader_;
  std::map<int, std::unique_ptr<ExpertSource>> sources_;
};

TEST_F(ExpertCacheTest, GivesWhatTheFileHolds) {
  make_cache(30);
  EXPECT_TRUE(cache_->holds_all());
  for (int l = 0; l < num_layers; ++l) use(l, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(cache_->counters().misses, 30);
  EXPECT_EQ(misses_of(1, {0, 5, 9}), 0);
}

TEST_F(ExpertCacheTest, WorksInWavesWithASingleSlot) {
  make_cache(1);
  use(0, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  use(2, {3, 4});
  EXPECT_EQ(cache_->counters().misses, 12);
  // 18,000 bytes lie in 5 or 6 blocks.
  EXPECT_GE(cache_->counters().bytes_read, 12 * 5 * 4096);
  EXPECT_LE(cache_->counters().bytes_read, 12 * 6 * 4096);
}

TEST_F(ExpertCacheTest, GivesWhatIsThereFirst) {
  make_cache(4);
  use(0, {2, 7});
  const auto lease = sources_[0]->take(std::vector<int32_t>{1, 2, 7});
  const auto first = lease->next();
  ASSERT_TRUE(first);
  std::vector<int32_t> came;
  for (const LoadedExpert& e : *first) came.push_back(e.index);
  EXPECT_THAT(came, testing::IsSupersetOf({2, 7}));
}

TEST_F(ExpertCacheTest, TheOneThatWasUsedLastStaysAmongEquals) {
  make_cache(3);
  use(0, {0});
  use(0, {1});
  use(0, {2});
  use(0, {3});  // 0 goes
  EXPECT_EQ(misses_of(0, {1, 2, 3}), 0);
  EXPECT_EQ(misses_of(0, {0}), 1);
}

TEST_F(ExpertCacheTest, FrequentUseOutweighsALaterSingleOne) {
  make_cache(2);
  for (int i = 0; i < 5; ++i) use(0, {0});
  use(0, {1});
  use(0, {2});  // 1 goes, though 0 was used before it
  EXPECT_EQ(misses_of(0, {0}), 0);
  EXPECT_EQ(misses_of(0, {1}), 1);
}

TEST_F(ExpertCacheTest, OldUsesAreForgotten) {
  make_cache(2);
  for (int i = 0; i < 5; ++i) use(0, {0});
  // Many passes later a use weighs little.
  for (int i = 0; i < 3 * num_layers * static_cast<int>(ExpertCache::half_life); ++i) use(1, {4});
  use(2, {5});
  EXPECT_EQ(misses_of(1, {4}), 0);
  EXPECT_EQ(misses_of(0, {0}), 1);
}

TEST_F(ExpertCacheTest, WhatIsHeldIsNeverEvicted) {
  make_cache(2);
  const auto held = sources_[0]->take(std::vector<int32_t>{0});
  const auto batch = held->next();
  ASSERT_TRUE(batch);
  ASSERT_EQ(batch->size(), 1u);
  use(1, {1, 2, 3, 4});
  check(0, batch->front());
  EXPECT_EQ(misses_of(0, {0}), 0);
}

TEST_F(ExpertCacheTest, ALeaseThatEndsEarlyGivesEverythingBack) {
  make_cache(3);
  for (int i = 0; i < 20; ++i) (void)sources_[i % 3]->take(std::vector<int32_t>{i % 10});
  use(0, {0, 1, 2, 3, 4, 5});
}

// Whenever that is: a lease that waited for somebody to let go of the slot would wait for ever.
TEST_F(ExpertCacheTest, ASlotWhoseReadEndsWhileNobodyHoldsItIsTaken) {
  auto late = std::make_unique<LateReader>(std::move(reader_));
  LateReader& reader = *late;
  reader_ = std::move(late);
  for (int denials = 0; denials < 5; ++denials) {
    make_cache(1);
    (void)sources_[0]->take(std::vector<int32_t>{0});  // ends while it is read
    reader.deny(denials);
    use(0, {1});
  }
}

TEST_F(ExpertCacheTest, GuessesAreActedOnOnceTheyHaveBeenRight) {
  make_cache(8);
  // Layer 1 is always asked for what was expected of it.
  const auto pass = [&](std::vector<int32_t> expected, const std::vector<int32_t>& wanted) {
    cache_->expect(1, expected);
    use(0, {0});
    use(1, wanted);
  };
  pass({3, 1}, {1, 3});
  EXPECT_EQ(cache_->counters().prefetched, 0);  // nothing is known about guesses yet
  for (int i = 0; i < 30; ++i) pass({i % 9, i % 9 + 1}, {i % 9, i % 9 + 1});
  ExpertCounters c = cache_->counters();
  EXPECT_GT(c.prefetched, 0);
  EXPECT_EQ(c.prefetched_used, c.prefetched);
  EXPECT_EQ(c.forecast, 62);
  EXPECT_EQ(c.forecast_right, 62);
  // When they turn wrong they are given up.
  for (int i = 0; i < 30; ++i) pass({9}, {i % 8});
  const int64_t before = cache_->counters().prefetched;
  for (int i = 0; i < 30; ++i) pass({i % 2 ? 9 : 8}, {i % 8});
  EXPECT_EQ(cache_->counters().prefetched, before);
}

// The first guess of a list is always right, the second one every other time.
TEST_F(ExpertCacheTest, ALessSureGuessIsNotActedOn) {
  make_cache(9);
  for (int i = 0; i < 60; ++i) {
    const int32_t sure = i % 5;
    const int32_t unsure = 5 + i % 4;
    cache_->expect(1, std::vector<int32_t>{sure, unsure});
    use(0, {i % 10});
    use(1, i % 2 == 0 ? std::vector<int32_t>{sure, unsure} : std::vector<int32_t>{sure});
    use(2, {i * 3 % 10});
  }
  const ExpertCounters c = cache_->counters();
  EXPECT_GT(c.prefetched, 0);
  EXPECT_EQ(c.prefetched_used, c.prefetched);
  EXPECT_EQ(c.forecast, 120);
  EXPECT_EQ(c.forecast_right, 90);
}

TEST_F(ExpertCacheTest, BytesReadAreThoseOfTheReads) {
  make_cache(7);
  for (int i = 0; i < 50; ++i) {
    cache_->expect(1, std::vector<int32_t>{i * 3 % 10});
    use(0, {i % 10});
    use(1, {i * 3 % 10});
    use(2, {i * 7 % 10});
  }
  const ExpertCounters c = cache_->counters();
  EXPECT_LE(c.bytes_read, (c.misses + c.prefetched) * cache_->slot_bytes());
  EXPECT_GE(c.bytes_read, (c.misses + c.prefetched) * (cache_->slot_bytes() - 4096));
  EXPECT_EQ(c.hits + c.misses, 150);
}

TEST_F(ExpertCacheTest, AFailedReadIsAnErrorAndTriedAgain) {
  make_cache(4);
  const std::filesystem::path shard = dir_ / "model-00002-of-00002.safetensors";
  const std::string content = test::read_all(shard);
  std::filesystem::resize_file(shard, content.size() / 2);
  for (int i = 0; i < 10; ++i) {  // no slot is lost
    const auto lease = sources_[2]->take(std::vector<int32_t>{8, 9});
    Result<std::span<const LoadedExpert>> batch = lease->next();
    for (int n = 0; batch && !batch->empty() && n < 3; ++n) batch = lease->next();
    ASSERT_FALSE(batch);
    EXPECT_EQ(batch.error().code, ErrorCode::io);
    EXPECT_THAT(batch.error().message, HasSubstr(shard.string()));
  }
  // One error ended a lease while the other read went on: see that through.
  for (const int32_t e : {8, 9}) EXPECT_FALSE(sources_[2]->take(std::vector<int32_t>{e})->next());
  // Written anew in place, so that it is the same file.
  std::filesystem::resize_file(shard, 0);
  std::ofstream(shard, std::ios::binary | std::ios::in | std::ios::out) << content;
  use(2, {8, 9});
  use(0, {0, 1, 2, 3});
}

}  // namespace
}  // namespace fathom
