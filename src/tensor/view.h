// A typed, shaped view of memory that someone else owns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/check.h"
#include "tensor/dtype.h"

namespace fathom {

/// Up to four dimensions, row-major, contiguous.
class Shape {
 public:
  static constexpr int max_rank = 4;

  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<int64_t> dims) {
    FATHOM_CHECK_LE(dims.size(), static_cast<size_t>(max_rank));
    for (int64_t d : dims) dims_[static_cast<size_t>(rank_++)] = d;
  }

  constexpr int rank() const { return rank_; }
  constexpr int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  constexpr void push_back(int64_t dim) {
    FATHOM_CHECK_LT(rank_, max_rank);
    dims_[static_cast<size_t>(rank_++)] = dim;
  }
  constexpr int64_t elements() const {
    int64_t n = 1;
    for (int i = 0; i < rank_; ++i) n *= dims_[static_cast<size_t>(i)];
    return n;
  }
  friend constexpr bool operator==(const Shape&, const Shape&) = default;

  /// "[1280, 5120]"
  std::string to_string() const {
    std::string s = "[";
    for (int i = 0; i < rank_; ++i) s += (i ? ", " : "") + std::to_string(dims_[static_cast<size_t>(i)]);
    return s + "]";
  }

 private:
  std::array<int64_t, max_rank> dims_{};
  int rank_ = 0;
};

/// Read-only tensor. `data` may be unaligned (mapped files): read elements through tensor/load.h.
/// `name` is the checkpoint's name for it, for messages; it must outlive the view, and may be empty.
struct TensorView {
  const std::byte* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  std::string_view name;

  bool empty() const { return data == nullptr; }
  int64_t bytes() const { return shape.elements() * dtype_bytes(dtype); }
};

}  // namespace fathom
