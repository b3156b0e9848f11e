// Packed records of random content, in blocks as a sequence has them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/huge_buffer.h"
#include "base/result.h"
#include "ops/params.h"
#include "tensor/cache_layout.h"

namespace fathom::bench {

enum class RecordKind { window, compressed, index };

/// `count` records at `data`, of any codes and of scales that are numbers of like size.
void fill_records(std::byte* data, RecordKind kind, int64_t dim, int64_t count);

/// Bytes of one.
int64_t record_bytes(RecordKind kind, int64_t dim);

/// Records of one sequence. Movable.
class RecordBlocks {
 public:
  static Result<RecordBlocks> create(RecordKind kind, int64_t dim, int64_t count);

  RecordsView view() const { return {blocks_, records_per_block}; }
  RingView ring(int64_t slots) const { return {memory_.data(), slots}; }

 private:
  static constexpr int64_t records_per_block = 256;

  HugeBuffer memory_;
  std::vector<std::byte*> blocks_;
};

}  // namespace fathom::bench
