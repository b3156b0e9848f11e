// oneDNN's matrix products in bf16, weights packed as it likes them: what a general library makes of the same
// shapes on the same machine. Its bf16 weights are twice the bytes of our FP8 ones, and are counted as such.
#include <fmt/format.h>
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

#include "bench/linear_shapes.h"
#include "bench/operation.h"
#include "bench/weight_store.h"

namespace fathom::bench {
namespace {

using dnnl::memory;

// Its errors are exceptions; none leaves this file.
template <class Body>
Status guarded(const Body& body) {
  try {
    body();
    return {};
  } catch (const dnnl::error& e) {
    return fail(ErrorCode::unsupported, "oneDNN: {}", e.what());
  }
}

class OneDnnLinear final : public Operation {
 public:
  OneDnnLinear(const OperationSetup& setup, const LinearShape& shape)
      : shape_(shape), rotation_bytes_(setup.rotation_bytes), store_(setup.threads) {
    omp_set_num_threads(setup.threads);
  }

  Status prepare(const OperationSetup& setup) {
    FATHOM_ASSIGN(in_, store_.tensor(DType::bf16, {setup.max_rows, shape_.in}));
    FATHOM_ASSIGN(out_, store_.tensor(DType::f32, {setup.max_rows, shape_.out}));  // room for either result
    FATHOM_ASSIGN(weight_, store_.tensor(DType::bf16, {shape_.out, shape_.in}));
    return {};
  }

  Work work(int64_t rows) override {
    const auto values = static_cast<double>(shape_.out * shape_.in);
    return {.bytes = 2 * values, .flop = 2 * static_cast<double>(rows) * values};
  }

  Status run(int64_t rows) override {
    if (rows != packed_rows_) FATHOM_TRY(guarded([&] { pack(rows); }));
    return guarded([&] {
      product_->execute(stream_, {{DNNL_ARG_SRC, *source_},
                                  {DNNL_ARG_WEIGHTS, packed_[next_++ % packed_.size()]},
                                  {DNNL_ARG_DST, *result_}});
      stream_.wait();
    });
  }

 private:
  // The library's own layout of the weights depends on the number of rows.
  void pack(int64_t rows) {
    using Tag = memory::format_tag;
    const auto bf16_type = memory::data_type::bf16;
    const auto result_type = shape_.result == DType::f32 ? memory::data_type::f32 : bf16_type;
    const memory::desc source({rows, shape_.in}, bf16_type, Tag::ab);
    const memory::desc result({rows, shape_.out}, result_type, Tag::ab);
    const memory::desc any({shape_.in, shape_.out}, bf16_type, Tag::any);
    const memory::desc stored({shape_.in, shape_.out}, bf16_type, Tag::ba);  // [out, in]
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(source, any, result), engine_);
    product_.emplace(description);
    source_.emplace(source, engine_, const_cast<std::byte*>(in_.data));
    result_.emplace(result, engine_, const_cast<std::byte*>(out_.data));
    packed_.clear();
    memory weights(stored, engine_, const_cast<std::byte*>(weight_.data));
    const int64_t copies = copies_for(weight_.bytes(), rotation_bytes_);
    for (int64_t i = 0; i < copies; ++i) {
      packed_.emplace_back(description.weights_desc(), engine_);
      dnnl::reorder(weights, packed_.back()).execute(stream_, weights, packed_.back());
    }
    stream_.wait();
    packed_rows_ = rows;
  }

  LinearShape shape_;
  int64_t rotation_bytes_;
  WeightStore store_;
  TensorView in_, out_, weight_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::optional<dnnl::matmul> product_;
  std::optional<memory> source_, result_;
  std::vector<memory> packed_;
  int64_t packed_rows_ = 0;
  size_t next_ = 0;
};

}  // namespace

void add_onednn_operations(const ModelConfig& config, std::vector<OperationSpec>& out) {
  for (const LinearShape& shape : linear_shapes(config)) {
    if (shape.groups > 1) continue;
    out.push_back({.name = "dnnl." + shape.name,
                   .shape = fmt::format("bf16 [{}, {}]", shape.out, shape.in),
                   .max_rows = shape.max_rows,
                   .make = [shape](const OperationSetup& setup) -> OperationPtr {
                     auto operation = std::make_unique<OneDnnLinear>(setup, shape);
                     FATHOM_TRY(operation->prepare(setup));
                     return operation;
                   }});
  }
}

}  // namespace fathom::bench
