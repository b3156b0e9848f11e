#include "model/trace.h"

#include <cmath>
#include <cstring>

namespace fathom {
namespace {

// Widens f32 [rows, from] to [rows, to].
void widen(TraceRecorder::Tensor& t, int64_t to) {
  const int64_t rows = t.shape[0];
  const int64_t from = t.shape[1];
  if (from == to) return;
  std::vector<std::byte> data(static_cast<size_t>(rows * to) * sizeof(float));
  const float pad = -INFINITY;
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(data.data() + r * to * 4, t.data.data() + r * from * 4, static_cast<size_t>(from) * 4);
    for (int64_t i = from; i < to; ++i) std::memcpy(data.data() + (r * to + i) * 4, &pad, 4);
  }
  t.shape = Shape{rows, to};
  t.data = std::move(data);
}

}  // namespace

void TraceRecorder::record(const std::string& name, const TensorView& tensor, Rows rows) {
  Tensor next{tensor.dtype, tensor.shape, {tensor.data, tensor.data + tensor.bytes()}};
  const auto at = tensors_.find(name);
  if (at == tensors_.end() || rows == Rows::replace) {
    tensors_[name] = std::move(next);
    return;
  }
  Tensor& all = at->second;
  FATHOM_CHECK_EQ(all.dtype, next.dtype);
  if (all.shape.rank() == 2 && all.shape[1] != next.shape[1]) {
    FATHOM_CHECK_EQ(all.dtype, DType::f32);
    const int64_t width = std::max(all.shape[1], next.shape[1]);
    widen(all, width);
    widen(next, width);
  }
  Shape shape{all.shape[0] + next.shape[0]};
  for (int i = 1; i < all.shape.rank(); ++i) {
    FATHOM_CHECK_EQ(all.shape[i], next.shape[i]);
    shape.push_back(all.shape[i]);
  }
  all.shape = shape;
  all.data.insert(all.data.end(), next.data.begin(), next.data.end());
}

}  // namespace fathom
