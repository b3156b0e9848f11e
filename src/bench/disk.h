// What the disk under a file can do, past the page cache.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "bench/quiet_gate.h"

namespace fathom::bench {

struct DiskLimits {
  std::filesystem::path file;
  Rate sequential;  // bytes per second, several large reads at once
  Rate random;      // reads of 4 KiB per second, many at once
};

/// Reads `path`, or the largest file in it (or below it) when it is a directory. Errors: io, not_found,
/// unsupported (too small or full of holes: nothing to measure), cancelled.
Result<DiskLimits> measure_disk(QuietGate& gate, const Effort& effort, const std::filesystem::path& path);

}  // namespace fathom::bench
