#include "bench/quiet_gate.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "base/cancel.h"
#include "bench/team.h"

namespace fathom::bench {
namespace {

constexpr size_t num_calibration_probes = 48;
constexpr double pause_seconds = 0.02;  // between probes while someone else is at work
// Even a machine that loses nothing measures a little unevenly; and whatever the machine, a fifth is a loss.
constexpr double min_tolerance = 0.03;
constexpr double max_tolerance = 0.2;
// A dependent chain has one speed, whatever else the core can do at once. About 4 ms at 3.6 GHz: shorter ones
// vary by how many of the small interruptions they happen to meet.
constexpr int64_t probe_steps = 4'800'000;

void spin() {
  uint64_t x = 3;
  for (int64_t i = 0; i < probe_steps; ++i) {
    x *= 0x9E3779B97F4A7C15u;
    asm volatile("" : "+r"(x));
  }
}

}  // namespace

GateClock real_clock(int threads) {
  return {.now = seconds_now,
          .sleep = [](double s) { std::this_thread::sleep_for(std::chrono::duration<double>(s)); },
          .probe = [threads] { return run_together(threads, [](int) { spin(); }); }};
}

QuietGate::QuietGate(GateClock clock, std::function<bool()> cancelled)
    : clock_(std::move(clock)), cancelled_(std::move(cancelled)) {
  std::vector<double> probes = {clock_.probe()};
  while (probes.size() < num_calibration_probes && !this->cancelled()) probes.push_back(clock_.probe());
  baseline_ = *std::min_element(probes.begin(), probes.end());
  // A quarter of the time even a shared machine is quiet; twice that spread takes in the rest of quiet.
  const double spread = quantile(probes, 0.25) / baseline_ - 1;
  tolerance_ = std::clamp(2 * spread, min_tolerance, max_tolerance);
}

double QuietGate::probe() {
  const double seconds = clock_.probe();
  baseline_ = std::min(baseline_, seconds);
  return seconds;
}

bool QuietGate::quiet() { return probe() <= baseline_ * (1 + tolerance_); }

bool QuietGate::wait(double seconds) {
  const double end = clock_.now() + seconds;
  for (;;) {
    if (cancelled()) return false;
    if (quiet()) return true;
    if (clock_.now() >= end) return false;
    clock_.sleep(pause_seconds);
  }
}

Result<Summary> measure(QuietGate& gate, const Effort& effort, const std::function<Result<double>()>& run) {
  std::vector<Sample> samples;
  int clean = 0;
  bool quiet_before = false;
  const double end = gate.now() + effort.seconds;
  while (clean < effort.clean_samples &&
         (gate.now() < end || static_cast<int>(samples.size()) < effort.min_samples)) {
    FATHOM_TRY(check_cancelled(effort.cancelled));
    // The probe after one sample is the probe before the next.
    if (!quiet_before)
      quiet_before = gate.wait(std::max(0.0, std::min(end - gate.now(), effort.seconds / 4)));
    FATHOM_TRY(check_cancelled(effort.cancelled));  // while it waited
    FATHOM_ASSIGN(const double seconds, run());
    const bool quiet_after = gate.quiet();
    samples.push_back({seconds, quiet_before && quiet_after});
    if (samples.back().clean) ++clean;
    quiet_before = quiet_after;
  }
  return summarize(samples);
}

}  // namespace fathom::bench
