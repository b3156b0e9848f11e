// model.safetensors.index.json: which shard holds which tensor (spec 2).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fathom {

class ShardIndex {
 public:
  struct Entry {
    std::string_view tensor;
    uint32_t shard = 0;  // into shards()
  };

  /// Parses an index. `what` names it in messages. A shard is a plain file name that ends in ".safetensors":
  /// anything with a '/', and "..", is refused, so an index cannot point out of its directory. Errors:
  /// format.
  static Result<ShardIndex> parse(std::string_view json, std::string_view what);

  ShardIndex(ShardIndex&&) = default;
  ShardIndex& operator=(ShardIndex&&) = default;
  ShardIndex(const ShardIndex&) = delete;
  ShardIndex& operator=(const ShardIndex&) = delete;

  /// Distinct file names, ascending.
  std::span<const std::string> shards() const { return shards_; }
  /// Ascending by tensor name; names are unique and live as long as this object, wherever it is moved.
  std::span<const Entry> entries() const { return entries_; }

 private:
  ShardIndex() = default;

  std::vector<std::string> shards_;
  std::vector<char> names_;
  std::vector<Entry> entries_;
};

/// The largest index file accepted, in bytes (the released one has some 10 MB).
constexpr uint64_t max_shard_index_bytes = 100'000'000;

}  // namespace fathom
