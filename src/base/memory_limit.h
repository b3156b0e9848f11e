// How much memory this process may use: what the machine has free, and what its control groups leave.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"

namespace fathom {

struct MemoryLimit {
  int64_t bytes = 0;   // that this process may take in addition to what it has
  std::string source;  // what says so: a file's path
  int64_t total = 0;   // what the machine or the group has, used or not
};

/// The smallest of MemAvailable and, for every control group (v1 and v2) from this process's own up to the
/// root, its limit less what is used there; file cache that the kernel can drop does not count as used.
/// Groups that cannot be read do not limit. `root` stands for "/" in tests. Where nothing can be read, 0
/// bytes.
MemoryLimit available_memory(const std::filesystem::path& root = "/");

/// The limit of the machine and the same groups with the smallest `total`.
MemoryLimit total_memory(const std::filesystem::path& root = "/");

/// Bytes of a buffer that exists only to be measured with: `wanted`, but at most a quarter of what is left,
/// so that measuring never ends the process. Errors: out_of_memory where that is below `least`. A limit
/// without a source, which is where nothing can be read, does not limit.
Result<int64_t> measuring_bytes(int64_t wanted, int64_t least, const MemoryLimit& limit);

/// Less than this to measure reading with, and caches would be measured.
inline constexpr int64_t min_reading_bytes = int64_t{64} << 20;

/// Memory of this process that the kernel cannot drop, in bytes: RssAnon and RssShmem; 0 where unknown.
int64_t used_memory(const std::filesystem::path& root = "/");

}  // namespace fathom
