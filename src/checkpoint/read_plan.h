// How to read some tensors of a checkpoint into one block of memory, with few large aligned reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/async_reader.h"
#include "checkpoint/checkpoint.h"

namespace fathom {

/// A checkpoint's shards, opened for direct reads, by number.
using DirectShards = std::vector<std::shared_ptr<const DirectFile>>;

/// Errors: not_found, io, format, naming the file.
Result<DirectShards> open_direct(const Checkpoint& checkpoint,
                                 DirectFile::Mode mode = DirectFile::Mode::direct);

struct ReadPlan {
  struct Range {
    uint32_t shard = 0;
    uint64_t offset = 0;  // in the file, aligned
    size_t bytes = 0;     // to the end of the last tensor in it
    size_t at = 0;        // in the block, aligned
  };
  std::vector<Range> ranges;
  std::vector<size_t> positions;  // where each tensor begins in the block, in the order of `places`
  size_t block_bytes = 0;         // what the ranges take, and what they read: whole alignments

  /// The reads into a block of block_bytes at `block`, which is aligned.
  std::vector<ReadRequest> requests(const DirectShards& shards, std::byte* block) const;
};

/// Tensors that follow each other in a file, or nearly so, are read together. Tensors in the block stand as
/// they do in the file: their alignment is that of the file, and may be none.
ReadPlan plan_reads(std::span<const Checkpoint::Place> places);

}  // namespace fathom
