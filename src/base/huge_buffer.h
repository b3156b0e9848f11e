// Large anonymous memory on huge pages: weights that are read again and again miss the TLB less.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/result.h"

namespace fathom {

/// Zeroed memory aligned to 2 MiB, owned. A page takes up memory when it is first written. Huge pages are
/// asked for; where the kernel has none it gives small ones.
class HugeBuffer {
 public:
  static constexpr int64_t alignment = int64_t{2} << 20;

  /// `bytes` >= 0. Errors: out_of_memory.
  static Result<HugeBuffer> allocate(int64_t bytes);

  HugeBuffer() = default;
  HugeBuffer(HugeBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  HugeBuffer& operator=(HugeBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HugeBuffer();

  std::byte* data() const { return data_; }
  /// As asked for, rounded up to whole huge pages.
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace fathom
