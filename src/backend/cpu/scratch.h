// Working memory of the exact path's kernels: grows to what an operation needs and is kept for the next.
//
// Taking and returning large blocks for every operation costs more page faults than the arithmetic.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace fathom::cpu {

/// Memory of one thread. A slot's content is undefined when it is taken, and its pointer is valid until the
/// same slot is taken again; different slots do not disturb each other.
class Scratch {
 public:
  enum Slot {
    input,
    gate,
    up,
    hidden,
    gathered,
    sum,
    shared,
    result,
    weights,
    keys,
    values,
    queries,
    attended,
    num_slots
  };

  /// n floats; not cleared. Where there is no memory the process ends as for an uncaught std::bad_alloc:
  /// other threads may be in the midst of the operation.
  float* floats(Slot slot, int64_t n) noexcept {
    std::vector<float>& memory = floats_[slot];
    if (memory.size() < static_cast<size_t>(n)) memory.resize(static_cast<size_t>(n));
    return memory.data();
  }

 private:
  std::array<std::vector<float>, num_slots> floats_;
};

}  // namespace fathom::cpu
