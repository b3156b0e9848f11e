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

/// `path`, or the largest file in it (or below it) when it is a directory, if it can be measured. Reads
/// nothing. Errors: io, not_found, unsupported (no regular file, too small or full of holes: nothing to
/// measure).
Result<std::filesystem::path> find_disk_file(const std::filesystem::path& path);

/// Reads that file. Errors: those of find_disk_file, cancelled.
Result<DiskLimits> measure_disk(QuietGate& gate, const Effort& effort, const std::filesystem::path& path);

}  // namespace fathom::bench
