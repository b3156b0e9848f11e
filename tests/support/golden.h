// Golden files for tests: tensors by name, as vectors.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "tensor/weight.h"

namespace fathom::testing {

class Golden {
 public:
  /// `file` is relative to tests/golden.
  explicit Golden(const std::string& file)
      : file_(SafetensorsFile::open(std::string(FATHOM_SOURCE_DIR) + "/tests/golden/" + file)) {
    if (!file_) throw std::runtime_error(file_.error().message);
  }

  TensorView view(const std::string& name) const {
    const auto found = file_->find(name);
    if (!found) throw std::runtime_error("no golden tensor " + name);
    return *found;
  }
  bool has(const std::string& name) const { return file_->find(name).has_value(); }
  Shape shape(const std::string& name) const { return view(name).shape; }

  /// Any float tensor as float.
  std::vector<float> floats(const std::string& name) const {
    const TensorView t = view(name);
    std::vector<float> out(static_cast<size_t>(t.shape.elements()));
    load_floats(t, 0, t.shape.elements(), out.data());
    return out;
  }
  /// A tensor of exactly sizeof(T) bytes an element.
  template <class T>
  std::vector<T> values(const std::string& name) const {
    const TensorView t = view(name);
    EXPECT_EQ(dtype_bytes(t.dtype), static_cast<int64_t>(sizeof(T))) << name;
    std::vector<T> out(static_cast<size_t>(t.shape.elements()));
    std::memcpy(out.data(), t.data, out.size() * sizeof(T));
    return out;
  }

 private:
  Result<SafetensorsFile> file_;
};

}  // namespace fathom::testing
