// The machine's limits once more, briefly, beside every sample of an operation.
//
// On a shared machine what memory and cores give drifts by a third within minutes; a share of a limit means
// something only when both were measured in the same moment.
#pragma once

#include <memory>

#include "base/huge_buffer.h"
#include "base/result.h"
#include "base/threads.h"
#include "bench/limits.h"
#include "bench/operation.h"

namespace fathom::bench {

class LimitProbe {
 public:
  /// For operations on all threads of `limits`, which also says what multiplies fastest. Takes at most
  /// `most_bytes` to read from. Errors: out_of_memory.
  static Result<LimitProbe> make(const MachineLimits& limits, int64_t most_bytes);

  /// Memory that it reads from, in turn.
  int64_t buffer_bytes() const { return memory_.bytes(); }

  /// What the machine would need for `work` right now, in seconds: for its reading, or, where by `limits`
  /// that takes less, for its products with operands from each core's second-level cache. Takes milliseconds.
  double seconds_for(const Work& work);

 private:
  double bandwidth();  // bytes per second
  double products();   // FLOP per second

  MachineLimits limits_;
  std::unique_ptr<ThreadPool> pool_;  // shares work out as operations do
  const Kernels* reader_ = nullptr;
  const Kernels* multiplier_ = nullptr;
  double fastest_ = 0;   // what the multiplier has reached on all threads, FLOP per second
  HugeBuffer memory_;    // to read from, a part in each probe
  HugeBuffer operands_;  // of each thread
  int64_t pieces_ = 0;   // of a part
  int64_t at_ = 0;
};

}  // namespace fathom::bench
