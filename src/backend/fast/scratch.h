// Working memory of the fast path: grows to what an operation needs and is kept for the next.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace fathom::fast {

/// Memory of one thread, aligned to 64 bytes. A slot's content is undefined when it is taken, and its pointer
/// is valid until the same slot is taken again; different slots do not disturb each other.
class Scratch {
 public:
  enum Slot {
    weights,
    more_weights,
    products,
    partial,
    rotation,
    row,
    input,
    gate,
    up,
    hidden,
    result,
    keys,
    queries,
    scores,
    panel,
    sums,
    grid,
    arranged_hidden,
    num_slots
  };

  /// n elements; not cleared. Where there is no memory the process ends as for an uncaught std::bad_alloc:
  /// other threads may be in the midst of the operation.
  template <class T>
  T* take(Slot slot, int64_t n) noexcept {
    Memory& memory = slots_[slot];
    const int64_t bytes = n * static_cast<int64_t>(sizeof(T));
    if (memory.bytes < bytes) grow(memory, bytes);
    return reinterpret_cast<T*>(memory.data.get());
  }

  /// What all slots hold.
  int64_t bytes() const {
    int64_t all = 0;
    for (const Memory& memory : slots_) all += memory.bytes;
    return all;
  }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  struct Memory {
    std::unique_ptr<std::byte, Free> data;
    int64_t bytes = 0;
  };

  static void grow(Memory& memory, int64_t bytes) {
    constexpr int64_t alignment = 64;
    memory.bytes = (bytes + alignment - 1) / alignment * alignment;
    memory.data.reset();  // before the new block is there: both may not fit
    memory.data.reset(
        static_cast<std::byte*>(std::aligned_alloc(alignment, static_cast<size_t>(memory.bytes))));
    if (memory.data == nullptr) throw std::bad_alloc();
  }

  std::array<Memory, num_slots> slots_;
};

}  // namespace fathom::fast
