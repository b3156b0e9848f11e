// Large anonymous memory in huge pages, as a fast path's weights are meant to lie: with 4 KiB pages a core
// spends a good part of a streaming read on page walks (27 % on FP4 experts).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/result.h"

namespace fathom::bench {

/// Errors: out_of_memory where the machine and its control groups leave less: whoever took it would be
/// killed.
Status check_room(int64_t bytes);

/// Owned, zeroed, aligned to 2 MiB. Memory is used when it is first written.
class HugeMemory {
 public:
  /// Errors: out_of_memory, also as check_room() has it.
  static Result<HugeMemory> allocate(int64_t bytes);

  HugeMemory() = default;
  HugeMemory(HugeMemory&& other) noexcept
      : mapping_(std::exchange(other.mapping_, nullptr)),
        mapped_bytes_(other.mapped_bytes_),
        data_(other.data_),
        bytes_(other.bytes_) {}
  HugeMemory& operator=(HugeMemory&& other) noexcept {
    std::swap(mapping_, other.mapping_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HugeMemory();

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace fathom::bench
