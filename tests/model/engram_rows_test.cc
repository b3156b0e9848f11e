// Rows of two tables by way of the cache, against the tables themselves.
#include "model/engram_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/support/checkpoint_builder.h"

namespace fathom {
namespace {

using test::CheckpointBuilder;
using test::TempDir;
using testing::HasSubstr;

constexpr int64_t num_rows[] = {5000, 7000};
constexpr int64_t row_bytes = 256;  // rows cross blocks wherever the header ends

class EngramRowsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::mt19937 random(3);
    const auto bytes = [&](int64_t n) {
      std::string out(static_cast<size_t>(n), '\0');
      for (char& c : out) c = static_cast<char>(random());
      return out;
    };
    CheckpointBuilder builder;
    for (int t = 0; t < 2; ++t) {
      const int64_t n = num_rows[t];
      builder.tensors.push_back(
          {fmt::format("{}.weight", t), "F8_E4M3", {n, row_bytes}, bytes(n * row_bytes)});
      builder.tensors.push_back(
          {fmt::format("{}.scale", t), "F8_E8M0", {n, row_bytes / 32}, bytes(n * row_bytes / 32)});
    }
    builder.write(dir_.path(), 1);
    checkpoint_ = std::make_unique<Checkpoint>(Checkpoint::open(dir_.path()).value());
    shards_ = open_direct(*checkpoint_).value();
    reader_ = AsyncReader::create().value();
    for (int t = 0; t < 2; ++t)
      tables_.push_back({*checkpoint_->find(fmt::format("{}.weight", t)),
                         *checkpoint_->find(fmt::format("{}.scale", t)), engram_table_block});
    rows_ = std::make_unique<EngramRows>(*checkpoint_, shards_, *reader_, tables_);
  }

  /// Asks for rows of both tables and compares them.
  void check(const std::vector<std::vector<int64_t>>& ids) {
    rows_->request(ids);
    for (int64_t t : {1, 0}) {  // in any order
      const std::vector<int64_t>& wanted = ids[static_cast<size_t>(t)];
      std::vector<int64_t> slots(wanted.size());
      const auto taken = rows_->take(t, wanted, slots);
      ASSERT_TRUE(taken) << taken.error().message;
      const Weight& table = tables_[static_cast<size_t>(t)];
      EXPECT_EQ(taken->scale.name, table.scale.name);
      for (size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_LT(slots[i], taken->out());
        ASSERT_EQ(std::memcmp(taken->data.data + slots[i] * row_bytes,
                              table.data.data + wanted[i] * row_bytes, row_bytes),
                  0);
        ASSERT_EQ(std::memcmp(taken->scale.data + slots[i] * 8, table.scale.data + wanted[i] * 8, 8), 0);
      }
    }
  }

  TempDir dir_;
  std::unique_ptr<Checkpoint> checkpoint_;
  DirectShards shards_;
  std::unique_ptr<AsyncReader> reader_;
  std::vector<Weight> tables_;
  std::unique_ptr<EngramRows> rows_;
};

TEST_F(EngramRowsTest, GivesTheRowsOfTheTables) {
  ASSERT_TRUE(rows_->reserve(4000, 1 << 20));
  check({{0, 4999, 17, 17, 0}, {6999, 0, 17}});
  EXPECT_EQ(rows_->counters().misses, 6);  // each once
  EXPECT_EQ(rows_->counters().hits, 0);
  check({{17, 18}, {17, 18}});
  EXPECT_EQ(rows_->counters().misses, 8);
  EXPECT_EQ(rows_->counters().hits, 2);
}

TEST_F(EngramRowsTest, ManyPassesWithLittleRoom) {
  // Staging holds 16 rows at a time, the cache twice what a pass asks for.
  ASSERT_TRUE(rows_->reserve(400, EngramRows::min_staging_bytes));
  std::mt19937 random(5);
  for (int pass = 0; pass < 60; ++pass) {
    std::vector<std::vector<int64_t>> ids(2);
    for (size_t t = 0; t < 2; ++t)
      for (int i = 0; i < 100; ++i)
        // Half of them from a few.
        ids[t].push_back(static_cast<int64_t>(random() % (i % 2 ? 50 : static_cast<uint32_t>(num_rows[t]))));
    check(ids);
  }
  const EngramCounters c = rows_->counters();
  EXPECT_GT(c.hits, 60 * 2 * 20);
  EXPECT_LE(c.bytes_read, c.misses * 4 * 4096);
}

TEST_F(EngramRowsTest, RowsInOneBlockAreReadTogether) {
  ASSERT_TRUE(rows_->reserve(100, 1 << 20));
  // 32 rows in a row are 2 or 3 blocks of values, and their scales 1 or 2.
  std::vector<int64_t> ids;
  for (int64_t i = 64; i < 96; ++i) ids.push_back(i);
  check({ids, {}});
  EXPECT_LE(rows_->counters().bytes_read, 5 * 4096);
}

TEST_F(EngramRowsTest, TheOldestRowsGo) {
  ASSERT_TRUE(rows_->reserve(4, 1 << 20));
  check({{0, 1}, {}});
  check({{2, 3}, {}});
  check({{0}, {}});
  check({{4}, {}});  // 1 goes
  const int64_t before = rows_->counters().misses;
  check({{0, 2, 3, 4}, {}});
  EXPECT_EQ(rows_->counters().misses, before);
  check({{1}, {}});
  EXPECT_EQ(rows_->counters().misses, before + 1);
}

TEST_F(EngramRowsTest, ARequestMayBeDropped) {
  ASSERT_TRUE(rows_->reserve(2000, EngramRows::min_staging_bytes));
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 900; ++i) ids.push_back(i * 5);
  rows_->request(std::vector<std::vector<int64_t>>{ids, {}});
  check({{5, 10, 4495}, {1}});
}

TEST_F(EngramRowsTest, AFailedReadIsAnErrorAndTriedAgain) {
  ASSERT_TRUE(rows_->reserve(100, 1 << 20));
  const std::filesystem::path shard = dir_ / "model-00001-of-00001.safetensors";
  const std::string content = test::read_all(shard);
  std::filesystem::resize_file(shard, 8192);
  const std::vector<std::vector<int64_t>> ids{{4000}, {3}};
  for (int i = 0; i < 3; ++i) {
    rows_->request(ids);
    std::vector<int64_t> slots(1);
    const auto taken = rows_->take(0, ids[0], slots);
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().code, ErrorCode::io);
    EXPECT_THAT(taken.error().message, HasSubstr(shard.string()));
  }
  std::ofstream(shard, std::ios::binary | std::ios::in | std::ios::out) << content;
  check(ids);
}

}  // namespace
}  // namespace fathom
