#include "model/trace_tensors.h"

#include <vector>

#include "tensor/cache_layout.h"
#include "tensor/weight.h"

namespace fathom {
namespace {

std::vector<std::byte> fetch(Ops& ops, const TensorView& tensor) {
  std::vector<std::byte> data(static_cast<size_t>(tensor.bytes()));
  ops.copy_out(data.data(), tensor);
  return data;
}

TensorView view_of(const std::vector<float>& values, Shape shape) {
  return {reinterpret_cast<const std::byte*>(values.data()), DType::f32, shape, {}};
}

}  // namespace

void trace_tensor(Trace& trace, Ops& ops, const std::string& name, const TensorView& tensor) {
  const std::vector<std::byte> data = fetch(ops, tensor);
  const TensorView host{data.data(), tensor.dtype, tensor.shape, {}};
  if (tensor.dtype != DType::bf16) {
    trace.record(name, host, Trace::Rows::append);
    return;
  }
  std::vector<float> values(static_cast<size_t>(tensor.shape.elements()));
  load_floats(host, 0, tensor.shape.elements(), values.data());
  trace.record(name, view_of(values, tensor.shape), Trace::Rows::append);
}

void trace_window(Trace& trace, Ops& ops, const std::string& name, const TensorView& records,
                  int64_t head_dim) {
  const std::vector<std::byte> data = fetch(ops, records);
  const int64_t rows = records.shape[0];
  std::vector<float> values(static_cast<size_t>(rows * head_dim));
  for (int64_t r = 0; r < rows; ++r)
    unpack_window(data.data() + r * records.shape[1], head_dim, values.data() + r * head_dim);
  trace.record(name, view_of(values, Shape{rows, head_dim}), Trace::Rows::append);
}

void trace_records(Trace& trace, Ops& ops, const std::string& name, StoreRecordsParams::Kind kind,
                   const RecordsView& records, int64_t count, int64_t dim) {
  const bool index = kind == StoreRecordsParams::Kind::index_key;
  const int64_t bytes = (index ? index_record(dim) : compressed_record(dim)).bytes();
  std::vector<float> values(static_cast<size_t>(count * dim));
  std::vector<std::byte> record(static_cast<size_t>(bytes));
  for (int64_t i = 0; i < count; ++i) {
    ops.copy_out(record.data(), TensorView{records.at(i, bytes), DType::u8, Shape{bytes}, {}});
    if (index)
      unpack_index(record.data(), dim, values.data() + i * dim);
    else
      unpack_compressed(record.data(), dim, values.data() + i * dim);
  }
  trace.record(name, view_of(values, Shape{count, dim}), Trace::Rows::replace);
}

}  // namespace fathom
