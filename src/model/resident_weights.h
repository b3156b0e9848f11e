// Dense weights in memory: every token needs all of them, so they are read once and kept.
//
// They lie on huge pages, each tensor aligned to 64 bytes, whatever the file's alignment is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/async_reader.h"
#include "base/huge_buffer.h"
#include "checkpoint/read_plan.h"
#include "model/manifest.h"
#include "model/tensor_table.h"

namespace fathom {

/// Called while weights are read, on the caller's thread. Each may be empty.
struct LoadHooks {
  std::function<void(int64_t done, int64_t total)> progress = {};  // bytes
  std::function<bool()> cancelled = {};
};

/// Whether a tensor is read as a whole by every token, and so kept in memory: all but the routed experts, the
/// engram tables and the embedding, of which a token needs a few rows; the draft stages when `drafting`. The
/// vision tower is used once an image, not once a token: it stays in the mapped files, where
/// the kernel may drop it.
bool is_resident(const ExpectedTensor& tensor, bool drafting);

class ResidentWeights {
 public:
  /// What load() keeps for these tensors of the table, in bytes.
  static int64_t bytes_for(const TensorTable& tensors, const std::vector<std::string>& names);

  /// What it takes besides while it reads.
  static constexpr int64_t staging_bytes = int64_t{32} << 20;

  /// Reads the tensors and makes the table's views of them point here. The result must live as long as views
  /// are used. Errors: out_of_memory, cancelled, io naming the file; the table is as it was then.
  static Result<ResidentWeights> load(const Checkpoint& checkpoint, const DirectShards& shards,
                                      AsyncReader& reader, const std::vector<std::string>& names,
                                      TensorTable& tensors, const LoadHooks& hooks);

  int64_t bytes() const { return memory_.bytes(); }

 private:
  HugeBuffer memory_;
};

}  // namespace fathom
