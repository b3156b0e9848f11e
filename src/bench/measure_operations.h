// Times operations and holds them against the machine's limits.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/limits.h"
#include "bench/operation.h"
#include "bench/quiet_gate.h"

namespace fathom::bench {

struct OperationResult {
  std::string name;
  std::string shape;
  int64_t rows = 0;
  Work work;
  Summary time;      // of one run
  double share = 0;  // of the limit measured beside each sample; the median. 0 for work in a cache
};

/// What the machine needs for `work` right now, in seconds; see LimitProbe.
using LimitNow = std::function<double(const Work&)>;

/// What the machine needs for `work` at least, in seconds: its reading or its arithmetic, whichever is
/// longer. 0 for work in a cache, which the limits say nothing about.
double limit_seconds(const Work& work, const MachineLimits& limits);

/// Whether reading is the longer one.
bool bound_by_reading(const Work& work, const MachineLimits& limits);

struct OperationsPlan {
  OperationSetup setup;
  std::vector<int64_t> rows;
  std::string filter;  // only operations with this text in their name
  Effort effort;       // for each operation and number of rows
};

/// Those with `filter` in their name that mean something at any of `rows` (at least one), in order. Errors:
/// invalid_argument where there are none, with the names that there are.
Result<std::vector<const OperationSpec*>> choose_operations(const std::vector<OperationSpec>& specs,
                                                            const std::string& filter,
                                                            const std::vector<int64_t>& rows);

/// The operations that `plan` chooses, `limit_now` called before and after every sample. `step` is told what
/// comes, the number of it and of how many; `done` gets every result at once. Errors: those of
/// choose_operations, of the operations and of `done`, which ends the measurement, and cancelled.
Status measure_operations(QuietGate& gate, const std::vector<OperationSpec>& specs,
                          const OperationsPlan& plan, const LimitNow& limit_now,
                          const std::function<void(std::string_view, int64_t, int64_t)>& step,
                          const std::function<Status(OperationResult)>& done);

}  // namespace fathom::bench
