#include "checkpoint/read_plan.h"

#include <algorithm>
#include <numeric>

namespace fathom {
namespace {

constexpr uint64_t grid = DirectFile::alignment;
// A gap that costs less to read than to skip.
constexpr uint64_t largest_gap = 16 * grid;

uint64_t grid_floor(uint64_t offset) { return offset / grid * grid; }
uint64_t grid_ceil(uint64_t offset) { return (offset + grid - 1) / grid * grid; }

}  // namespace

Result<DirectShards> open_direct(const Checkpoint& checkpoint, DirectFile::Mode mode) {
  DirectShards shards;
  for (size_t i = 0; i < checkpoint.num_shards(); ++i) {
    FATHOM_ASSIGN(auto file, DirectFile::open(checkpoint.shard_path(static_cast<uint32_t>(i)), mode));
    shards.push_back(std::move(file));
  }
  return shards;
}

ReadPlan plan_reads(std::span<const Checkpoint::Place> places) {
  std::vector<uint32_t> order(places.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return places[a].shard != places[b].shard ? places[a].shard < places[b].shard
                                              : places[a].offset < places[b].offset;
  });
  ReadPlan plan;
  plan.positions.resize(places.size());
  for (const uint32_t i : order) {
    const Checkpoint::Place& place = places[i];
    ReadPlan::Range* last = plan.ranges.empty() ? nullptr : &plan.ranges.back();
    if (last == nullptr || last->shard != place.shard ||
        grid_floor(place.offset) > grid_ceil(last->offset + last->bytes) + largest_gap) {
      const size_t at = last == nullptr ? 0 : last->at + grid_ceil(last->bytes);
      last = &plan.ranges.emplace_back(ReadPlan::Range{place.shard, grid_floor(place.offset), 0, at});
    }
    last->bytes = std::max<size_t>(last->bytes, place.offset + place.bytes - last->offset);
    plan.positions[i] = last->at + (place.offset - last->offset);
  }
  if (!plan.ranges.empty()) plan.block_bytes = plan.ranges.back().at + grid_ceil(plan.ranges.back().bytes);
  return plan;
}

std::vector<ReadRequest> ReadPlan::requests(const DirectShards& shards, std::byte* block) const {
  std::vector<ReadRequest> out;
  for (const Range& range : ranges)
    out.push_back({shards[range.shard].get(), range.offset, range.bytes, block + range.at});
  return out;
}

}  // namespace fathom
