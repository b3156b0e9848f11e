#include "model/resident_weights.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "base/cancel.h"
#include "base/check.h"

namespace fathom {
namespace {

constexpr int64_t alignment = 64;
constexpr size_t window_bytes = size_t{8} << 20;

int64_t aligned(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

// A tensor's way from its file to its place in memory.
struct Move {
  Checkpoint::Place from;
  std::byte* to = nullptr;
  std::string_view name;
};

// A part of a file, read into one staging block and copied from there.
struct Window {
  uint32_t shard = 0;
  uint64_t begin = 0, end = 0;
  size_t first_move = 0;  // the first that reaches into it
};

// Covers all moves, which are in the order of the files, and as little else as the alignment allows.
std::vector<Window> cut_into_windows(const std::vector<Move>& moves) {
  constexpr uint64_t grid = DirectFile::alignment;
  std::vector<Window> windows;
  for (size_t i = 0; i < moves.size(); ++i) {
    const Checkpoint::Place& place = moves[i].from;
    uint64_t begin = place.offset / grid * grid;
    const uint64_t end = place.offset + place.bytes;
    if (!windows.empty() && windows.back().shard == place.shard && begin <= windows.back().end) {
      Window& last = windows.back();
      last.end = std::max(last.end, std::min(end, last.begin + window_bytes));
      begin = std::max(begin, last.begin + window_bytes);
    }
    for (; begin < end; begin += window_bytes)
      windows.push_back({place.shard, begin, std::min<uint64_t>(end, begin + window_bytes), i});
  }
  return windows;
}

void copy_out_of(const Window& window, const std::byte* block, const std::vector<Move>& moves) {
  for (size_t i = window.first_move; i < moves.size(); ++i) {
    const Checkpoint::Place& place = moves[i].from;
    if (place.shard != window.shard || place.offset >= window.end) break;
    const uint64_t begin = std::max(place.offset, window.begin);
    const uint64_t end = std::min(place.offset + place.bytes, window.end);
    if (begin < end)
      std::memcpy(moves[i].to + (begin - place.offset), block + (begin - window.begin), end - begin);
  }
}

// Several windows are on their way while one is copied.
Status read_windows(const std::vector<Window>& windows, const std::vector<Move>& moves,
                    const DirectShards& shards, AsyncReader& reader, const LoadHooks& hooks) {
  constexpr size_t num_blocks = ResidentWeights::staging_bytes / window_bytes;
  FATHOM_ASSIGN(const HugeBuffer staging, HugeBuffer::allocate(ResidentWeights::staging_bytes));
  const auto block_of = [&](size_t window) { return staging.data() + window % num_blocks * window_bytes; };
  int64_t total = 0;
  for (const Window& w : windows) total += static_cast<int64_t>(w.end - w.begin);
  int64_t done = 0;
  Status status;
  std::deque<AsyncReader::Ticket> under_way;
  size_t next = 0;
  for (size_t i = 0; i < windows.size() || !under_way.empty(); ++i) {
    while (status && next < windows.size() && under_way.size() < num_blocks) {
      const Window& w = windows[next];
      const ReadRequest request{shards[w.shard].get(), w.begin, static_cast<size_t>(w.end - w.begin),
                                block_of(next)};
      under_way.push_back(reader.submit({&request, 1}, ReadUrgency::needed));
      ++next;
    }
    // After a failure the reads under way are still waited for: they write to the staging blocks.
    if (under_way.empty()) break;
    const Status read = reader.wait(under_way.front());
    under_way.pop_front();
    if (!read && status) status = read;
    if (status) status = check_cancelled(hooks.cancelled);
    if (!status) continue;
    copy_out_of(windows[i], block_of(i), moves);
    done += static_cast<int64_t>(windows[i].end - windows[i].begin);
    if (hooks.progress) hooks.progress(done, total);
  }
  return status;
}

}  // namespace

bool is_resident(const ExpectedTensor& tensor, bool drafting) {
  switch (tensor.group) {
    case TensorGroup::experts:
    case TensorGroup::engram_table:
    case TensorGroup::embedding:
      return false;
    case TensorGroup::draft:
      return drafting && tensor.name.find(".ffn.experts.") == std::string::npos;
    case TensorGroup::vision:
      return tensor.name.starts_with("layers.");  // the gates' bias_vl
    default:
      return true;
  }
}

int64_t ResidentWeights::bytes_for(const TensorTable& tensors, const std::vector<std::string>& names) {
  int64_t bytes = 0;
  for (const std::string& name : names) bytes += aligned(tensors.find(name).bytes());
  return bytes;
}

Result<ResidentWeights> ResidentWeights::load(const Checkpoint& checkpoint, const DirectShards& shards,
                                              AsyncReader& reader, const std::vector<std::string>& names,
                                              TensorTable& tensors, const LoadHooks& hooks) {
  ResidentWeights weights;
  FATHOM_ASSIGN(weights.memory_, HugeBuffer::allocate(bytes_for(tensors, names)));
  std::vector<Move> moves;
  std::byte* to = weights.memory_.data();
  for (const std::string& name : names) {
    const auto place = checkpoint.place_of(name);
    FATHOM_CHECK(place.has_value());
    moves.push_back({*place, to, name});
    to += aligned(static_cast<int64_t>(place->bytes));
  }
  std::sort(moves.begin(), moves.end(), [](const Move& a, const Move& b) {
    return a.from.shard != b.from.shard ? a.from.shard < b.from.shard : a.from.offset < b.from.offset;
  });
  FATHOM_TRY(read_windows(cut_into_windows(moves), moves, shards, reader, hooks));
  for (const Move& move : moves) tensors.relocate(move.name, move.to);
  return weights;
}

}  // namespace fathom
