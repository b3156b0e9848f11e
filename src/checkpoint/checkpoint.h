// A model directory's weights: all shards mapped, every tensor found by name (spec 2).
//
// Knows which file holds what; what the tensors should be is the manifest's business (model/manifest.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/safetensors.h"
#include "tensor/view.h"

namespace fathom {

class Checkpoint {
 public:
  struct Entry {
    const TensorView* tensor = nullptr;
    uint32_t shard = 0;
  };

  /// Opens model.safetensors.index.json with its shards or, where there is no index, model.safetensors.
  /// Headers are read and checked against the index and each other; no tensor data is touched. A tensor must
  /// be in exactly the shard that the index gives. Errors name the file: not_found (directory, index,
  /// shard), format (damaged, truncated, contradictory), unsupported (a dtype this reader does not know).
  /// Files must not be shortened while mapped: reading a lost page stops the process.
  static Result<Checkpoint> open(const std::filesystem::path& directory);

  /// The tensor as stored, mapped in place, or null. Views, and the names in them, live as long as this
  /// object, wherever it is moved.
  const TensorView* find(std::string_view name) const;

  /// The file name of the shard that holds `name`; empty when there is no such tensor.
  std::string_view file_of(std::string_view name) const;
  std::string_view file_of(const Entry& entry) const { return names_[entry.shard]; }

  /// Where a tensor lies, to be read without the mapping; nothing when there is no such tensor.
  struct Place {
    uint32_t shard = 0;
    uint64_t offset = 0;  // in the shard's file, bytes
    uint64_t bytes = 0;
  };
  std::optional<Place> place_of(std::string_view name) const;
  std::filesystem::path shard_path(uint32_t shard) const { return directory_ / names_[shard]; }

  /// Ascending by tensor name, without duplicates.
  std::span<const Entry> entries() const { return entries_; }
  size_t num_shards() const { return files_.size(); }
  /// Bytes of all tensors together.
  uint64_t total_bytes() const { return total_bytes_; }
  const std::filesystem::path& directory() const { return directory_; }

  /// Starts reading a tensor, or any part of one, from disk without waiting. The mapping is advised for
  /// random access (page_advice.h): call this before reading more than a page.
  void will_need(const TensorView& tensor) const;
  void will_need(std::span<const std::byte> bytes) const;

 private:
  Checkpoint() = default;
  const Entry* entry_of(std::string_view name) const;

  std::filesystem::path directory_;
  std::vector<std::string> names_;  // of the shards
  std::vector<SafetensorsFile> files_;
  std::vector<Entry> entries_;
  uint64_t total_bytes_ = 0;
};

}  // namespace fathom
