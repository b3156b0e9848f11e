// What is kept of repeated timings on a machine that is not always ours.
#pragma once

#include <span>
#include <vector>

namespace fathom::bench {

/// One timing. `clean`: the machine was quiet right before and right after it.
struct Sample {
  double seconds = 0;
  bool clean = false;
};

/// Of the clean samples, or of all of them when none is clean.
struct Summary {
  double median = 0;  // seconds
  double best = 0;    // seconds, of all samples: nothing makes a run faster than the machine is
  int clean = 0;
  int taken = 0;
};

/// The middle value, or the mean of the two in the middle. `values` is not empty.
double median(std::vector<double> values);

/// The value that a share `q` of the values lie below, 0 <= q <= 1. `values` is not empty.
double quantile(std::vector<double> values, double q);

/// All zeros without samples.
Summary summarize(std::span<const Sample> samples);

/// An amount per second: bytes, FLOP, tokens.
struct Rate {
  double median = 0;
  double best = 0;
  int clean = 0;
  int taken = 0;
};

/// Of samples that did `amount` each.
Rate rate_of(const Summary& summary, double amount);

}  // namespace fathom::bench
