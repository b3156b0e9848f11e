// Host tensors for operation tests: owned values with the views that operations take.
#pragma once

#include <vector>

#include "ops/tensor_ref.h"
#include "tensor/bfloat16.h"

namespace fathom::testing {

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bf16>) return DType::bf16;
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::u8;
}

template <class T>
struct HostTensor {
  Shape shape;
  std::vector<T> values;

  explicit HostTensor(Shape s) : shape(s), values(static_cast<size_t>(s.elements())) {}
  HostTensor(Shape s, std::vector<T> v) : shape(s), values(std::move(v)) {}

  TensorRef ref() { return {reinterpret_cast<std::byte*>(values.data()), dtype_of<T>(), shape}; }
  TensorView view() const {
    return {reinterpret_cast<const std::byte*>(values.data()), dtype_of<T>(), shape, {}};
  }
};

inline HostTensor<bf16> bf16_tensor(Shape shape, const std::vector<float>& values) {
  HostTensor<bf16> t(shape);
  for (size_t i = 0; i < values.size(); ++i) t.values[i] = to_bf16(values[i]);
  return t;
}

inline std::vector<float> as_floats(const HostTensor<bf16>& t) {
  std::vector<float> out;
  for (bf16 v : t.values) out.push_back(to_float(v));
  return out;
}

}  // namespace fathom::testing
