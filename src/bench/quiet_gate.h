// Tells samples taken on a quiet machine from those that lost time to someone else.
//
// Virtual machines are time-sliced: a busy core can lose half its time for seconds, and no counter of the
// guest shows it. A fixed piece of work on all threads does: it takes longer than it has been seen to take.
// How much longer still counts as quiet depends on the machine: one loses nothing when it is quiet, another
// 4 to 20 % to interruptions of 40 microseconds that come all the time, so that no fixed share of lost time
// fits both. The gate therefore learns the quiet state from the probes themselves.
#pragma once

#include <functional>
#include <vector>

#include "base/result.h"
#include "bench/statistics.h"

namespace fathom::bench {

/// The world of a gate, so that tests can make one up. Times are in seconds.
struct GateClock {
  std::function<double()> now;
  std::function<void(double)> sleep;
  std::function<double()> probe;  // does the fixed work and gives how long that took
};

/// The real one: fixed work on `threads` threads at once, about 4 ms.
GateClock real_clock(int threads);

class QuietGate {
 public:
  /// Probes a few dozen times to learn what quiet is. `cancelled` is asked before every probe, in wait() too,
  /// and may be empty; a gate that was cancelled knows little and waits no more.
  explicit QuietGate(GateClock clock, std::function<bool()> cancelled = {});

  /// Probes once.
  bool quiet();
  /// Probes until the machine is quiet, for at most `seconds`; whether it is.
  bool wait(double seconds);

  double now() const { return clock_.now(); }
  /// The shortest probe seen, and how much longer a quiet one may be, as a share of it.
  double baseline() const { return baseline_; }
  double tolerance() const { return tolerance_; }

 private:
  double probe();
  bool cancelled() const { return cancelled_ && cancelled_(); }

  GateClock clock_;
  std::function<bool()> cancelled_;
  double baseline_ = 0;
  double tolerance_ = 0;
};

/// When a measurement has enough.
struct Effort {
  double seconds = 0.5;  // in all, waiting for quiet included; a sample that has begun is finished
  int clean_samples = 9;
  int min_samples = 3;
  std::function<bool()> cancelled;  // asked before every sample and its wait; may be empty
};

/// Calls `run`, which gives the seconds of one sample, as often as `effort` says, each time between two
/// probes. Errors: what `run` gives, and cancelled.
Result<Summary> measure(QuietGate& gate, const Effort& effort, const std::function<Result<double>()>& run);

}  // namespace fathom::bench
