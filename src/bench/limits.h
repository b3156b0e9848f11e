// What the machine can do at most: the figures that operations are held against.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/kernels.h"
#include "bench/quiet_gate.h"

namespace fathom::bench {

/// One instruction set's products, in FLOP per second.
struct MatrixPeak {
  std::string name;
  Rate one_thread;  // operands in registers
  Rate registers;   // the same on all threads
  Rate streamed;    // on all threads, operands from each core's second-level cache
};

struct MachineLimits {
  int threads = 1;
  Rate read_one;  // bytes per second from memory, one thread
  Rate read_all;
  std::vector<MatrixPeak> peaks;  // of every instruction set there is; the portable loops are last

  // The best seen, not the median: nothing makes a run faster than the machine is, and a limit must hold.
  double bandwidth() const { return read_all.best; }
  /// The highest of the peaks from registers.
  double peak() const;
};

struct LimitOptions {
  int threads = 1;
  int64_t buffer_bytes = 0;  // to read from: several times the caches
  Effort effort;             // for each figure
};

/// `step` is told what is measured next. Errors: out_of_memory, cancelled.
Result<MachineLimits> measure_limits(QuietGate& gate, const LimitOptions& options,
                                     const std::function<void(std::string_view)>& step);

/// Every instruction set that this processor can run, best first; never empty.
std::vector<const Kernels*> available_kernels();

}  // namespace fathom::bench
