#include "bench/measure_operations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/cancel.h"
#include "bench/team.h"

namespace fathom::bench {
namespace {

// Long beside a probe's resolution and a wake-up, short beside the seconds for which a machine stays quiet.
constexpr double target_seconds = 0.005;

std::vector<int64_t> rows_for(const OperationSpec& spec, const std::vector<int64_t>& rows) {
  std::vector<int64_t> out;
  for (int64_t r : rows)
    if (spec.max_rows == 0 || r <= spec.max_rows) out.push_back(r);
  return out;
}

struct Timed {
  Work work;
  Summary time;
  double share = 0;
};

Result<Timed> time_operation(QuietGate& gate, Operation& operation, int64_t rows, const Effort& effort,
                             const LimitNow& limit_now) {
  const Work work = operation.work(rows);  // may prepare something
  // The first run takes memory and fills caches; the second says how many make a sample.
  FATHOM_TRY(operation.run(rows));
  FATHOM_TRY(check_cancelled(effort.cancelled));
  const double begin = seconds_now();
  FATHOM_TRY(operation.run(rows));
  const double once = std::max(seconds_now() - begin, 1e-9);
  const double target = std::min(target_seconds, effort.seconds / 4);
  const auto runs = static_cast<int64_t>(std::clamp(std::ceil(target / once), 1.0, 1e6));
  Effort actual = effort;
  // What takes longer than all of the time that it was given is run once more.
  if (once > effort.seconds) actual.min_samples = 1;
  std::vector<double> shares;
  FATHOM_ASSIGN(const Summary time, measure(gate, actual, [&]() -> Result<double> {
                  const double before = work.cached ? 0 : limit_now(work);
                  const double start = seconds_now();
                  for (int64_t i = 0; i < runs; ++i) FATHOM_TRY(operation.run(rows));
                  const double seconds = (seconds_now() - start) / static_cast<double>(runs);
                  const double after = work.cached ? 0 : limit_now(work);
                  shares.push_back((before + after) / 2 / seconds);
                  return seconds;
                }));
  return Timed{work, time, median(shares)};
}

}  // namespace

double limit_seconds(const Work& work, const MachineLimits& limits) {
  if (work.cached) return 0;
  return std::max(work.bytes / limits.bandwidth(), work.flop / limits.peak());
}

bool bound_by_reading(const Work& work, const MachineLimits& limits) {
  return work.bytes / limits.bandwidth() >= work.flop / limits.peak();
}

Result<std::vector<const OperationSpec*>> choose_operations(const std::vector<OperationSpec>& specs,
                                                            const std::string& filter,
                                                            const std::vector<int64_t>& rows) {
  std::vector<const OperationSpec*> named, chosen;
  std::vector<std::string> names;
  for (const OperationSpec& spec : specs) {
    if (std::find(names.begin(), names.end(), spec.name) == names.end()) names.push_back(spec.name);
    if (spec.name.find(filter) == std::string::npos) continue;
    named.push_back(&spec);
    if (!rows_for(spec, rows).empty()) chosen.push_back(&spec);
  }
  if (named.empty())
    return fail(ErrorCode::invalid_argument,
                "--filter: expected a part of one of these names, found '{}': {}", filter,
                fmt::join(names, ", "));
  if (chosen.empty())
    return fail(ErrorCode::invalid_argument,
                "--rows: expected a number of at most {} for {}, found {} at least", named.front()->max_rows,
                named.front()->name, *std::min_element(rows.begin(), rows.end()));
  return chosen;
}

Status measure_operations(QuietGate& gate, const std::vector<OperationSpec>& specs,
                          const OperationsPlan& plan, const LimitNow& limit_now,
                          const std::function<void(std::string_view, int64_t, int64_t)>& step,
                          const std::function<Status(OperationResult)>& done) {
  FATHOM_ASSIGN(const std::vector<const OperationSpec*> chosen,
                choose_operations(specs, plan.filter, plan.rows));
  int64_t total = 0;
  for (const OperationSpec* spec : chosen) total += static_cast<int64_t>(rows_for(*spec, plan.rows).size());
  int64_t number = 0;
  for (const OperationSpec* spec : chosen) {
    FATHOM_TRY(check_cancelled(plan.effort.cancelled));
    const std::vector<int64_t> rows = rows_for(*spec, plan.rows);
    step(spec->name, number, total);
    OperationSetup setup = plan.setup;
    setup.cancelled = plan.effort.cancelled;
    setup.max_rows = *std::max_element(rows.begin(), rows.end());
    FATHOM_ASSIGN(const std::unique_ptr<Operation> operation, spec->make(setup));
    for (int64_t r : rows) {
      step(fmt::format("{}, {} rows", spec->name, r), number++, total);
      FATHOM_ASSIGN(const Timed timed, time_operation(gate, *operation, r, plan.effort, limit_now));
      FATHOM_TRY(done({spec->name, spec->shape, r, timed.work, timed.time, timed.share}));
    }
  }
  return {};
}

}  // namespace fathom::bench
