// Mutable typed views of a backend's memory, and the buffers that own it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "tensor/bfloat16.h"
#include "tensor/view.h"

namespace fathom {

/// A contiguous activation or cache tensor in a backend's memory, aligned to 64 bytes at its start.
struct TensorRef {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;

  operator TensorView() const { return {data, dtype, shape, {}}; }
  int64_t rows() const { return shape[0]; }
  int64_t row_elements() const {
    int64_t n = 1;
    for (int i = 1; i < shape.rank(); ++i) n *= shape[i];
    return n;
  }

  /// Rows [begin, begin + n).
  TensorRef slice(int64_t begin, int64_t n) const {
    FATHOM_CHECK_LE(begin + n, shape[0]);
    TensorRef out{data, dtype, Shape{n}};
    for (int i = 1; i < shape.rank(); ++i) out.shape.push_back(shape[i]);
    out.data += begin * row_elements() * dtype_bytes(dtype);
    return out;
  }
  /// The first `n` rows.
  TensorRef head(int64_t n) const { return slice(0, n); }
  /// The same elements under another shape.
  TensorRef reshaped(Shape to) const {
    FATHOM_CHECK_EQ(to.elements(), shape.elements());
    return {data, dtype, to};
  }
};

/// Memory of one backend, owned. Movable; freed by the backend that made it, which must outlive it.
class Buffer {
 public:
  using Free = void (*)(void* owner, std::byte* data, int64_t bytes);

  Buffer() = default;
  Buffer(std::byte* data, int64_t bytes, void* owner, Free free)
      : data_(data), bytes_(bytes), owner_(owner), free_(free) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).swap(*this);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) free_(owner_, data_, bytes_);
  }

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void swap(Buffer& other) {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(owner_, other.owner_);
    std::swap(free_, other.free_);
  }

  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  void* owner_ = nullptr;
  Free free_ = nullptr;
};

}  // namespace fathom
