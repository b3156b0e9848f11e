#include "sampling/stop.h"

#include <limits>
#include <utility>

namespace fathom {

Result<StopMatcher> StopMatcher::make(std::span<const std::string> stops) {
  uint64_t total = 0;
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty())
      return fail(ErrorCode::invalid_argument, "stop: stop string {} is empty, expected some text", i);
    total += stops[i].size();
  }
  if (total >= static_cast<uint64_t>(std::numeric_limits<int32_t>::max()))
    return fail(ErrorCode::invalid_argument, "stop: expected less than 2 GiB of stop strings, found {} bytes",
                total);
  StopMatcher matcher(stops);
  for (size_t i = 0; i < stops.size(); ++i) matcher.add(i);
  matcher.link();
  return matcher;
}

int32_t StopMatcher::child(int32_t from, uint8_t byte) const {
  const auto found = children_.find(static_cast<uint64_t>(from) * 256 + byte);
  return found == children_.end() ? none : found->second;
}

int32_t StopMatcher::step(int32_t from, uint8_t byte) const {
  for (;;) {
    if (const int32_t next = child(from, byte); next != none) return next;
    if (from == 0) return 0;
    from = node(from).fail;
  }
}

std::string_view StopMatcher::text_of(const Node& n) const {
  if (n.depth == 0) return {};
  return std::string_view(stops_[static_cast<size_t>(n.owner)]).substr(0, static_cast<size_t>(n.depth));
}

void StopMatcher::add(size_t stop_index) {
  int32_t at = 0;
  for (const char c : stops_[stop_index]) {
    const auto byte = static_cast<uint8_t>(c);
    int32_t next = child(at, byte);
    if (next == none) {
      next = static_cast<int32_t>(nodes_.size());
      nodes_.push_back({.owner = static_cast<int32_t>(stop_index), .depth = node(at).depth + 1});
      children_.emplace(static_cast<uint64_t>(at) * 256 + byte, next);
    }
    at = next;
  }
  int32_t& stop = nodes_[static_cast<size_t>(at)].stop;
  if (stop == none) stop = static_cast<int32_t>(stop_index);
}

// Fills fail and match, shallow nodes first: a node's suffix is shallower than the node.
void StopMatcher::link() {
  std::vector<std::vector<std::pair<uint64_t, int32_t>>> by_depth;
  for (const auto& [key, index] : children_) {
    const auto depth = static_cast<size_t>(node(index).depth);
    if (by_depth.size() < depth) by_depth.resize(depth);
    by_depth[depth - 1].emplace_back(key, index);
  }
  for (const auto& level : by_depth) {
    for (const auto& [key, index] : level) {
      Node& n = nodes_[static_cast<size_t>(index)];
      const auto parent = static_cast<int32_t>(key / 256);
      if (parent != 0) n.fail = step(node(parent).fail, static_cast<uint8_t>(key % 256));
      n.match = n.stop != none ? index : node(n.fail).match;
    }
  }
}

std::string StopMatcher::push(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    if (stopped()) break;
    // The held text and this byte: what of its end still begins a stop string stays held.
    const Node& before = node(state_);
    state_ = step(state_, static_cast<uint8_t>(c));
    const Node& after = node(state_);
    if (after.depth == 0) {
      shown += text_of(before);
      shown += c;
    } else {
      shown += text_of(before).substr(0, static_cast<size_t>(before.depth + 1 - after.depth));
    }
    if (after.match == none) continue;
    const Node& end = node(after.match);
    shown += text_of(after).substr(0, static_cast<size_t>(after.depth - end.depth));
    matched_ = static_cast<size_t>(end.stop);
    state_ = 0;
  }
  return shown;
}

std::string StopMatcher::finish() { return std::string(text_of(node(std::exchange(state_, 0)))); }

}  // namespace fathom
