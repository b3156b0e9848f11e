#include "checkpoint/read_plan.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/huge_buffer.h"

namespace fathom {
namespace {

using Place = Checkpoint::Place;

const std::filesystem::path tiny = std::filesystem::path(FATHOM_SOURCE_DIR) / "tests/golden/tiny/model";

TEST(ReadPlan, NeighboursAreOneRead) {
  // In any order: [5000, 9000) and [9000, 9100) of one file.
  const ReadPlan plan = plan_reads(std::vector<Place>{{0, 9000, 100}, {0, 5000, 4000}});
  ASSERT_EQ(plan.ranges.size(), 1u);
  EXPECT_EQ(plan.ranges[0].offset, 4096u);
  EXPECT_EQ(plan.ranges[0].bytes, 9100u - 4096u);
  EXPECT_EQ(plan.positions, (std::vector<size_t>{9000 - 4096, 5000 - 4096}));
  EXPECT_EQ(plan.block_bytes, 8192u);
}

TEST(ReadPlan, WhatLiesFarApartIsNot) {
  const ReadPlan plan = plan_reads(std::vector<Place>{{0, 100, 50}, {0, 1000000, 5000}, {1, 100, 50}});
  ASSERT_EQ(plan.ranges.size(), 3u);
  EXPECT_EQ(plan.ranges[1].offset, 999424u);  // 244 * 4096
  EXPECT_EQ(plan.ranges[1].bytes, 1005000u - 999424u);
  EXPECT_EQ(plan.ranges[1].at, 4096u);
  EXPECT_EQ(plan.ranges[2].shard, 1u);
  EXPECT_EQ(plan.ranges[2].at, 4096u + 8192u);
  EXPECT_EQ(plan.positions, (std::vector<size_t>{100, 4096 + 576, 12288 + 100}));
  EXPECT_EQ(plan.block_bytes, 4u * 4096u);
}

TEST(ReadPlan, OfNothingIsEmpty) { EXPECT_EQ(plan_reads({}).block_bytes, 0u); }

// Every tensor of the tiny model, a few at a time, as the mapping has them.
TEST(ReadPlan, ReadsWhatTheMappingHolds) {
  const Checkpoint checkpoint = Checkpoint::open(tiny).value();
  const DirectShards shards = open_direct(checkpoint).value();
  const auto reader = AsyncReader::create().value();
  const auto entries = checkpoint.entries();
  for (size_t first = 0; first < entries.size(); first += 7) {
    const auto group = entries.subspan(first, std::min<size_t>(7, entries.size() - first));
    std::vector<Place> places;
    for (const Checkpoint::Entry& entry : group) places.push_back(*checkpoint.place_of(entry.tensor->name));
    const ReadPlan plan = plan_reads(places);
    const HugeBuffer block = HugeBuffer::allocate(static_cast<int64_t>(plan.block_bytes)).value();
    const auto requests = plan.requests(shards, block.data());
    ASSERT_TRUE(reader->wait(reader->submit(requests, ReadUrgency::needed)));
    for (size_t i = 0; i < group.size(); ++i) {
      const TensorView& tensor = *group[i].tensor;
      EXPECT_EQ(
          std::memcmp(block.data() + plan.positions[i], tensor.data, static_cast<size_t>(tensor.bytes())), 0)
          << tensor.name;
    }
  }
}

}  // namespace
}  // namespace fathom
