// Products with a weight matrix.
#include <fmt/format.h>

#include "bench/activations.h"
#include "bench/operation.h"
#include "bench/weight_store.h"

namespace fathom::bench {
namespace {

enum class Format { bf16, fp8 };

struct LinearShape {
  int64_t out = 0, in = 0;
  int64_t groups = 1;  // above 1: grouped_linear, whose input is groups * in and output groups * out wide
  Format format = Format::fp8;
  DType result = DType::bf16;
};

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
    FATHOM_ASSIGN(const Weight weight,
                  shape_.format == Format::fp8 ? store_.fp8(out, shape_.in) : store_.bf16(out, shape_.in));
    weights_.push_back(weight);
    return {};
  }

  Ops& ops_;
  LinearShape shape_;
  WeightStore store_;
  Activations activations_;
  std::vector<Weight> weights_;
  size_t next_ = 0;
  TensorRef in_, out_;
};

OperationSpec linear(std::string name, const LinearShape& shape, int64_t max_rows = 0) {
  const std::string groups = shape.groups > 1 ? fmt::format("{} x ", shape.groups) : "";
  return {.name = std::move(name),
          .shape = fmt::format("{} {}[{}, {}]", shape.format == Format::fp8 ? "fp8" : "bf16", groups,
                               shape.out, shape.in),
          .max_rows = max_rows,
          .make = [shape](const OperationSetup& setup) -> OperationPtr {
            auto operation = std::make_unique<Linear>(setup, shape);
            FATHOM_TRY(operation->prepare(setup));
            return operation;
          }};
}

}  // namespace

void add_linear_operations(const ModelConfig& c, std::vector<OperationSpec>& out) {
  const int64_t q = c.n_heads * c.head_dim;
  const int64_t o = c.o_groups * c.o_lora_rank;
  out.push_back(linear("wq_a", {.out = c.q_lora_rank, .in = c.dim}));
  out.push_back(linear("wq_b", {.out = q, .in = c.q_lora_rank}));
  out.push_back(linear("wkv", {.out = c.head_dim, .in = c.dim}));
  out.push_back(linear("wo_a", {.out = c.o_lora_rank, .in = q / c.o_groups, .groups = c.o_groups}));
  out.push_back(linear("wo_b", {.out = c.dim, .in = o}));
  out.push_back(linear("shared.w1", {.out = c.moe_inter_dim, .in = c.dim}));
  out.push_back(linear("shared.w2", {.out = c.dim, .in = c.moe_inter_dim}));
  if (!c.index_source_layers.empty())
    out.push_back(linear("indexer.wq_b", {.out = c.index_n_heads * c.index_head_dim, .in = c.q_lora_rank}));
  if (!c.engram_layer_ids.empty())
    out.push_back(
        linear("engram.wkv", {.out = (c.hc_mult + 1) * c.dim, .in = c.engram_columns() * c.engram_head_dim}));
  // Logits are wanted for few rows: one a sequence, and those of its drafts.
  out.push_back(
      linear("head", {.out = c.vocab_size, .in = c.dim, .format = Format::bf16, .result = DType::f32}, 64));
}

}  // namespace fathom::bench
