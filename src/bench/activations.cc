#include "bench/activations.h"

#include "bench/random_fill.h"

namespace fathom::bench {

Result<TensorRef> Activations::zeros(DType dtype, Shape shape) {
  TensorRef ref{nullptr, dtype, shape};
  FATHOM_ASSIGN(Buffer buffer, ops_.allocate(TensorView(ref).bytes()));
  ref.data = buffer.data();
  buffers_.push_back(std::move(buffer));
  return ref;
}

Result<TensorRef> Activations::random(DType dtype, Shape shape) {
  FATHOM_ASSIGN(const TensorRef ref, zeros(dtype, shape));
  const int64_t bytes = TensorView(ref).bytes();
  std::vector<std::byte> values(static_cast<size_t>(bytes));
  fill_random(values.data(), bytes, dtype, ++seed_, 1);
  ops_.copy_in(ref, values.data());
  return ref;
}

}  // namespace fathom::bench
