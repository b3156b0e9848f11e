// Products with a weight matrix.
#include <fmt/format.h>

#include <array>

#include "bench/activations.h"
#include "bench/linear_shapes.h"
#include "bench/operation.h"
#include "bench/weight_store.h"

namespace fathom::bench {
namespace {

class Linear final : public Operation {
 public:
  explicit Linear(const OperationSetup& setup, const LinearShape& shape)
      : ops_(setup.ops), shape_(shape), store_(setup.threads), activations_(setup.ops) {}

  Status prepare(const OperationSetup& setup) {
    const int64_t out = shape_.groups * shape_.out;
    FATHOM_TRY(add_copy());
    const int64_t copies = copies_for(bytes_of(weights_[0]), setup.rotation_bytes);
    while (static_cast<int64_t>(weights_.size()) < copies) FATHOM_TRY(add_copy());
    FATHOM_ASSIGN(in_, activations_.random(DType::bf16, {setup.max_rows, shape_.groups * shape_.in}));
    FATHOM_ASSIGN(out_, activations_.zeros(shape_.result, {setup.max_rows, out}));
    return {};
  }

  Work work(int64_t rows) override {
    const double values = static_cast<double>(shape_.groups * shape_.out * shape_.in);
    return {.bytes = static_cast<double>(bytes_of(weights_[0])),
            .flop = 2 * static_cast<double>(rows) * values};
  }

  Status run(int64_t rows) override {
    const Weight& weight = weights_[next_++ % weights_.size()];
    if (shape_.groups == 1)
      return ops_.linear({.in = in_.head(rows), .weight = weight, .out = out_.head(rows)});
    return ops_.grouped_linear(
        {.in = in_.head(rows), .weight = weight, .groups = shape_.groups, .out = out_.head(rows)});
  }

 private:
  Status add_copy() {
    const int64_t out = shape_.groups * shape_.out;
    FATHOM_ASSIGN(const Weight weight, random_weight(out, shape_.in));
    weights_.push_back(weight);
    return {};
  }

  Result<Weight> random_weight(int64_t out, int64_t in) {
    switch (shape_.format) {
      case LinearShape::Format::fp4:
        return store_.fp4(out, in);
      case LinearShape::Format::fp8:
        return store_.fp8(out, in);
      case LinearShape::Format::bf16:
        break;
    }
    return store_.bf16(out, in);
  }

  Ops& ops_;
  LinearShape shape_;
  WeightStore store_;
  Activations activations_;
  std::vector<Weight> weights_;
  size_t next_ = 0;
  TensorRef in_, out_;
};

std::string text_of(const LinearShape& shape) {
  const std::string groups = shape.groups > 1 ? fmt::format("{} x ", shape.groups) : "";
  constexpr std::array<const char*, 3> formats = {"bf16", "fp8", "fp4"};
  return fmt::format("{} {}[{}, {}]", formats[static_cast<size_t>(shape.format)], groups, shape.out,
                     shape.in);
}

}  // namespace

std::vector<LinearShape> linear_shapes(const ModelConfig& c) {
  const int64_t q = c.n_heads * c.head_dim;
  const int64_t o = c.o_groups * c.o_lora_rank;
  std::vector<LinearShape> out = {
      {.name = "wq_a", .out = c.q_lora_rank, .in = c.dim},
      {.name = "wq_b", .out = q, .in = c.q_lora_rank},
      {.name = "wkv", .out = c.head_dim, .in = c.dim},
      {.name = "wo_a", .out = c.o_lora_rank, .in = q / c.o_groups, .groups = c.o_groups},
      {.name = "wo_b", .out = c.dim, .in = o},
      {.name = "shared.w1", .out = c.moe_inter_dim, .in = c.dim},
      {.name = "shared.w2", .out = c.dim, .in = c.moe_inter_dim},
      {.name = "expert.w1", .out = c.moe_inter_dim, .in = c.dim, .format = LinearShape::Format::fp4},
      {.name = "expert.w2", .out = c.dim, .in = c.moe_inter_dim, .format = LinearShape::Format::fp4},
  };
  if (!c.index_source_layers.empty())
    out.push_back({.name = "indexer.wq_b", .out = c.index_n_heads * c.index_head_dim, .in = c.q_lora_rank});
  if (!c.engram_layer_ids.empty())
    out.push_back(
        {.name = "engram.wkv", .out = (c.hc_mult + 1) * c.dim, .in = c.engram_columns() * c.engram_head_dim});
  // Logits are wanted for few rows: one a sequence, and those of its drafts.
  out.push_back({.name = "head",
                 .out = c.vocab_size,
                 .in = c.dim,
                 .format = LinearShape::Format::bf16,
                 .result = DType::f32,
                 .max_rows = 64});
  return out;
}

void add_linear_operations(const ModelConfig& config, std::vector<OperationSpec>& out) {
  for (const LinearShape& shape : linear_shapes(config))
    out.push_back({.name = shape.name,
                   .shape = text_of(shape),
                   .max_rows = shape.max_rows,
                   .make = [shape](const OperationSetup& setup) -> OperationPtr {
                     auto operation = std::make_unique<Linear>(setup, shape);
                     FATHOM_TRY(operation->prepare(setup));
                     return operation;
                   }});
}

}  // namespace fathom::bench
