// Random activations in a backend's memory.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "ops/ops.h"

namespace fathom::bench {

/// Owns what its refs show.
class Activations {
 public:
  explicit Activations(Ops& ops) : ops_(ops) {}

  // Errors: out_of_memory.
  Result<TensorRef> zeros(DType dtype, Shape shape);
  Result<TensorRef> random(DType dtype, Shape shape);
  /// `values` has shape.elements() elements of `dtype`.
  template <class T>
  Result<TensorRef> of(DType dtype, Shape shape, const std::vector<T>& values) {
    FATHOM_ASSIGN(const TensorRef ref, zeros(dtype, shape));
    FATHOM_CHECK_EQ(static_cast<int64_t>(values.size() * sizeof(T)), TensorView(ref).bytes());
    ops_.copy_in(ref, values.data());
    return ref;
  }

 private:
  Ops& ops_;
  uint64_t seed_ = 1000;
  std::vector<Buffer> buffers_;
};

}  // namespace fathom::bench
