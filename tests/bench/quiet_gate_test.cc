// The gate in a made-up world: probes take what the test says, and time passes only when it is used.
#include "bench/quiet_gate.h"

#include <gtest/gtest.h>

#include <deque>

namespace fathom::bench {
namespace {

class World {
 public:
  GateClock clock() {
    return {.now = [this] { return time_; },
            .sleep = [this](double seconds) { time_ += seconds; },
            .probe = [this] { return probe(); }};
  }
  void next_probes(const std::vector<double>& seconds) { next_.assign(seconds.begin(), seconds.end()); }
  void then_always(double seconds) { always_ = {seconds}; }
  void then_in_turn(const std::vector<double>& seconds) { always_ = seconds; }
  void pass(double seconds) { time_ += seconds; }
  int probes() const { return probes_; }

 private:
  double probe() {
    double seconds = always_[static_cast<size_t>(probes_) % always_.size()];
    if (!next_.empty()) {
      seconds = next_.front();
      next_.pop_front();
    }
    ++probes_;
    time_ += seconds;
    return seconds;
  }

  double time_ = 100;
  int probes_ = 0;
  std::deque<double> next_;
  std::vector<double> always_ = {1};
};

TEST(QuietGate, AMachineThatLosesNothingMustStayCloseToItsBest) {
  World world;
  QuietGate gate(world.clock());
  EXPECT_EQ(gate.baseline(), 1);
  EXPECT_NEAR(gate.tolerance(), 0.03, 1e-12);
  world.next_probes({1.02, 1.05, 2, 1});
  EXPECT_TRUE(gate.quiet());
  EXPECT_FALSE(gate.quiet());
  EXPECT_FALSE(gate.quiet());
  EXPECT_TRUE(gate.quiet());
}

TEST(QuietGate, ConstantInterruptionsArePartOfQuiet) {
  World world;  // loses 0 to 10 % all the time: a fixed small share would let nothing pass
  world.then_in_turn({1.1, 1.0, 1.04, 1.08, 1.05, 1.06, 1.09, 1.07});
  QuietGate gate(world.clock());
  EXPECT_EQ(gate.baseline(), 1);
  EXPECT_NEAR(gate.tolerance(), 0.1, 1e-12);  // twice the spread up to the lower quartile
  world.next_probes({1.09, 1.5, 2.0});
  EXPECT_TRUE(gate.quiet());
  EXPECT_FALSE(gate.quiet());
  EXPECT_FALSE(gate.quiet());
}

TEST(QuietGate, ABusyCalibrationDoesNotMakeBusyQuiet) {
  World world;
  world.then_in_turn({1, 2, 2, 2, 2, 2, 2, 2});
  QuietGate gate(world.clock());
  EXPECT_NEAR(gate.tolerance(), 0.2, 1e-12);
  world.next_probes({2, 1.1});
  EXPECT_FALSE(gate.quiet());
  EXPECT_TRUE(gate.quiet());
}

TEST(QuietGate, ABetterProbeMovesTheBaseline) {
  World world;
  world.then_always(2);
  QuietGate gate(world.clock());
  EXPECT_EQ(gate.baseline(), 2);
  world.next_probes({1, 2});
  EXPECT_TRUE(gate.quiet());
  EXPECT_EQ(gate.baseline(), 1);
  EXPECT_FALSE(gate.quiet());
}

TEST(QuietGate, WaitsAsLongAsItMay) {
  World world;
  QuietGate gate(world.clock());
  world.next_probes({5, 5, 1});
  EXPECT_TRUE(gate.wait(100));
  world.then_always(5);
  EXPECT_FALSE(gate.wait(12));
  EXPECT_EQ(world.probes(), 48 + 3 + 3);  // calibration, until quiet, and three of 5 s in 12
}

TEST(QuietGate, ProbesNoMoreOnceCancelled) {
  World world;
  QuietGate gate(world.clock(), [&] { return world.probes() >= 5; });
  EXPECT_EQ(world.probes(), 5);
  EXPECT_FALSE(gate.wait(100));
  EXPECT_EQ(world.probes(), 5);
}

TEST(Measure, TakesNoSampleAfterAnInterruptedWait) {
  World world;
  QuietGate gate(world.clock(), [&] { return world.probes() >= 50; });
  world.then_always(9);  // never quiet again
  int runs = 0;
  const auto cancelled = measure(gate, {.seconds = 1000, .cancelled = [&] { return world.probes() >= 50; }},
                                 [&]() -> Result<double> { return ++runs; });
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::cancelled);
  EXPECT_EQ(runs, 0);
}

TEST(Measure, StopsAtEnoughCleanSamples) {
  World world;
  QuietGate gate(world.clock());
  int runs = 0;
  const auto summary = measure(gate, {.seconds = 1000, .clean_samples = 4, .cancelled = {}},
                               [&]() -> Result<double> { return ++runs; });
  ASSERT_TRUE(summary);
  EXPECT_EQ(runs, 4);
  EXPECT_EQ(summary->clean, 4);
  EXPECT_EQ(summary->median, 2.5);
  EXPECT_EQ(summary->best, 1);
}

TEST(Measure, ASampleIsCleanOnlyBetweenTwoQuietProbes) {
  World world;
  QuietGate gate(world.clock());
  // Quiet, run 1, loud; quiet (waited), run 2, quiet; run 3, loud; quiet, run 4, quiet.
  world.next_probes({1, 9, 1, 1, 9, 1, 1});
  int runs = 0;
  const auto summary = measure(gate, {.seconds = 1000, .clean_samples = 2, .cancelled = {}},
                               [&]() -> Result<double> { return ++runs; });
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->taken, 4);
  EXPECT_EQ(summary->clean, 2);
  EXPECT_EQ(summary->median, 3);  // of 2 and 4
}

TEST(Measure, AMachineThatIsNeverQuietStillGivesSamplesAndSaysSo) {
  World world;
  QuietGate gate(world.clock());
  world.then_always(3);
  const auto summary = measure(gate, {.seconds = 10, .clean_samples = 5, .min_samples = 3, .cancelled = {}},
                               [&]() -> Result<double> {
                                 world.pass(1);
                                 return 1.0;
                               });
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->clean, 0);
  EXPECT_GE(summary->taken, 3);
}

TEST(Measure, GivesErrorsAndInterruptsOn) {
  World world;
  QuietGate gate(world.clock());
  const auto failed = measure(gate, {}, []() -> Result<double> { return fail(ErrorCode::io, "no disk"); });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "no disk");
  int runs = 0;
  const auto cancelled =
      measure(gate, {.seconds = 1000, .clean_samples = 100, .cancelled = [&] { return runs == 3; }},
              [&]() -> Result<double> { return ++runs; });
  ASSERT_FALSE(cancelled);
  EXPECT_EQ(cancelled.error().code, ErrorCode::cancelled);
  EXPECT_EQ(runs, 3);
}

}  // namespace
}  // namespace fathom::bench
