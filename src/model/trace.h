// Named intermediate tensors of a pass, for tests and `fathom logits --trace`.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "ops/ops.h"

namespace fathom {

/// Watches the passes of one sequence. Names are those of the golden files without "trace.": "3.out",
/// "layers.3.ffn.experts" ...
class Trace {
 public:
  enum class Rows {
    append,   // the tensor's rows follow those of earlier chunks
    replace,  // the tensor is whole and takes the place of the last one
  };
  virtual ~Trace() = default;

  /// `tensor` is in host memory and valid during the call; bf16 values come as f32.
  virtual void record(const std::string& name, const TensorView& tensor, Rows rows) = 0;

  /// Called when a layer is done, with its stream (bf16 [rows, hc, dim]) and the next collapse's coefficients
  /// (f32 [rows, hc]) in backend memory. What is written to them is what the next layer starts from.
  virtual void after_layer(int64_t layer, Ops& ops, TensorRef stream, TensorRef pre) = 0;
};

/// Keeps everything. Rows of different widths (index scores of growing caches) are padded with -inf.
class TraceRecorder : public Trace {
 public:
  struct Tensor {
    DType dtype = DType::f32;
    Shape shape;
    std::vector<std::byte> data;
    TensorView view(std::string_view name) const { return {data.data(), dtype, shape, name}; }
  };

  void record(const std::string& name, const TensorView& tensor, Rows rows) override;
  void after_layer(int64_t, Ops&, TensorRef, TensorRef) override {}
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }

 private:
  std::map<std::string, Tensor> tensors_;
};

}  // namespace fathom
