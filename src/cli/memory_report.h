// What a model will do with a budget of memory, and how fast this machine's disk and memory let it be.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/memory_limit.h"
#include "base/result.h"
#include "cli/options.h"
#include "model/memory_tiers.h"

namespace fathom {

/// Bytes a second; 0: not known.
struct Bandwidths {
  double memory = 0;
  double disk = 0;
  std::string problem = {};  // why one could not be measured, and what to do about it
};

struct MemoryForecast {
  MemoryPlan plan;
  std::string budget_source;
  int64_t context = 0;  // positions of the sequence that is planned for
  // Of one token without drafts.
  double memory_bytes_per_token = 0;
  double disk_bytes_cold = 0;  // when nothing is in the caches
  double disk_bytes_warm = 0;  // when every expert is as likely as any other; texts do better than that
  Bandwidths bandwidths;

  /// The slower of memory and disk decides, since they overlap: a bound, which computing may stay below. 0
  /// where a bandwidth is not known.
  double tokens_per_second(double disk_bytes) const;
};

/// The budget of flags, or else what the machine leaves; and where the number is from.
struct MemoryBudget {
  int64_t bytes = 0;
  std::string source;   // a flag, or a file's path
  std::string origin;   // the same as a reader can follow it, for refusals
  std::string warning;  // what is doubtful about it; empty: nothing
};
/// `root` stands for "/" in tests.
MemoryBudget memory_budget(const std::optional<int64_t>& given, const std::filesystem::path& root = "/");

struct MeasureOptions {
  int threads = 1;                  // that read memory
  MemoryLimit left;                 // what buffers may take a part of
  std::function<bool()> cancelled;  // asked between two reads; may be empty
};

/// Reads from disk and memory for a moment each, where `given` has no number. Too little memory for that is a
/// problem of the result, not an error. Errors: io, out_of_memory, cancelled.
Result<Bandwidths> measure_bandwidths(MemoryTiers& tiers, const Bandwidths& given,
                                      const MeasureOptions& options);

/// Errors: those of plan_memory (a budget too small).
Result<MemoryForecast> forecast_memory(const ModelConfig& config, const MemoryNeeds& needs,
                                       const MemoryBudget& budget, const Bandwidths& bandwidths);

std::string to_text(const MemoryForecast& forecast);
Json to_json(const MemoryForecast& forecast);

/// What a run has read so far, for its own report.
Json memory_json(const MemoryTiers& tiers);

}  // namespace fathom
