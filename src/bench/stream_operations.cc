// Hyper-connections, norms and packing: little arithmetic, on activations that a cache holds.
#include <fmt/format.h>

#include <numeric>

#include "bench/activations.h"
#include "bench/operation.h"
#include "bench/weight_store.h"
#include "model/rope_table.h"
#include "tensor/cache_layout.h"

namespace fathom::bench {
namespace {

// Activations by name and weights in copies; what is done with them is a function.
class StreamOperation : public Operation {
 public:
  explicit StreamOperation(const OperationSetup& setup)
      : c_(setup.config), ops_(setup.ops), store_(setup.threads), activations_(setup.ops) {}

  virtual Status prepare(const OperationSetup& setup) = 0;

 protected:
  // `bytes` of activations read and written for a row.
  static Work cached(int64_t rows, int64_t bytes) {
    return {.bytes = static_cast<double>(rows * bytes), .flop = 0, .cached = true};
  }
  Status make(TensorRef& ref, DType dtype, Shape shape) {
    FATHOM_ASSIGN(ref, activations_.random(dtype, shape));
    return {};
  }

  const ModelConfig& c_;
  Ops& ops_;
  WeightStore store_;
  Activations activations_;
};

class HyperMix final : public StreamOperation {
 public:
  using StreamOperation::StreamOperation;
  Status prepare(const OperationSetup& setup) override {
    const int64_t rows = setup.max_rows;
    const int64_t copies = copies_for(c_.hc_mix() * c_.hc_mult * c_.dim * 4, setup.rotation_bytes);
    for (int64_t i = 0; i < copies; ++i) {
      FATHOM_ASSIGN(const TensorView fn, store_.tensor(DType::f32, {c_.hc_mix(), c_.hc_mult * c_.dim}));
      fn_.push_back(fn);
    }
    FATHOM_ASSIGN(base_, store_.tensor(DType::f32, {c_.hc_mix()}));
    FATHOM_ASSIGN(scale_, store_.tensor(DType::f32, {3}));
    FATHOM_TRY(make(stream_, DType::bf16, {rows, c_.hc_mult, c_.dim}));
    FATHOM_TRY(make(pre_, DType::f32, {rows, c_.hc_mult}));
    FATHOM_TRY(make(post_, DType::f32, {rows, c_.hc_mult}));
    return make(comb_, DType::f32, {rows, c_.hc_mult, c_.hc_mult});
  }
  Work work(int64_t rows) override {
    const auto values = static_cast<double>(fn_[0].shape.elements());
    return {.bytes = values * 4, .flop = 2 * static_cast<double>(rows) * values};
  }
  Status run(int64_t rows) override {
    ops_.hyper_mix({.stream = stream_.head(rows),
                    .fn = fn_[next_++ % fn_.size()],
                    .base = base_,
                    .scale = scale_,
                    .norm_eps = c_.norm_eps,
                    .hc_eps = c_.hc_eps,
                    .sinkhorn_iters = c_.hc_sinkhorn_iters,
                    .pre = pre_.head(rows),
                    .post = post_.head(rows),
                    .comb = comb_.head(rows)});
    return {};
  }

 private:
  std::vector<TensorView> fn_;
  size_t next_ = 0;
  TensorView base_, scale_;
  TensorRef stream_, pre_, post_, comb_;
};

class CollapseNorm final : public StreamOperation {
 public:
  using StreamOperation::StreamOperation;
  Status prepare(const OperationSetup& setup) override {
    FATHOM_ASSIGN(weight_, store_.tensor(DType::bf16, {c_.dim}));
    FATHOM_TRY(make(stream_, DType::bf16, {setup.max_rows, c_.hc_mult, c_.dim}));
    FATHOM_TRY(make(pre_, DType::f32, {setup.max_rows, c_.hc_mult}));
    return make(out_, DType::bf16, {setup.max_rows, c_.dim});
  }
  Work work(int64_t rows) override { return cached(rows, (c_.hc_mult + 1) * c_.dim * 2); }
  Status run(int64_t rows) override {
    ops_.collapse_norm({.stream = stream_.head(rows),
                        .pre = pre_.head(rows),
                        .weight = weight_,
                        .norm_eps = c_.norm_eps,
                        .out = out_.head(rows)});
    return {};
  }

 private:
  TensorView weight_;
  TensorRef stream_, pre_, out_;
};

class Expand final : public StreamOperation {
 public:
  using StreamOperation::StreamOperation;
  Status prepare(const OperationSetup& setup) override {
    FATHOM_TRY(make(y_, DType::bf16, {setup.max_rows, c_.dim}));
    FATHOM_TRY(make(stream_, DType::bf16, {setup.max_rows, c_.hc_mult, c_.dim}));
    FATHOM_TRY(make(post_, DType::f32, {setup.max_rows, c_.hc_mult}));
    return make(comb_, DType::f32, {setup.max_rows, c_.hc_mult, c_.hc_mult});
  }
  Work work(int64_t rows) override { return cached(rows, (2 * c_.hc_mult + 1) * c_.dim * 2); }
  Status run(int64_t rows) override {
    ops_.expand({.y = y_.head(rows),
                 .post = post_.head(rows),
                 .comb = comb_.head(rows),
                 .stream = stream_.head(rows)});
    return {};
  }

 private:
  TensorRef y_, post_, comb_, stream_;
};

class RmsNorm final : public StreamOperation {
 public:
  using StreamOperation::StreamOperation;
  Status prepare(const OperationSetup& setup) override {
    FATHOM_ASSIGN(weight_, store_.tensor(DType::bf16, {c_.q_lora_rank}));
    FATHOM_TRY(make(in_, DType::bf16, {setup.max_rows, c_.q_lora_rank}));
    return make(out_, DType::bf16, {setup.max_rows, c_.q_lora_rank});
  }
  Work work(int64_t rows) override { return cached(rows, 2 * c_.q_lora_rank * 2); }
  Status run(int64_t rows) override {
    ops_.rms_norm({.in = in_.head(rows), .weight = weight_, .eps = c_.norm_eps, .out = out_.head(rows)});
    return {};
  }

 private:
  TensorView weight_;
  TensorRef in_, out_;
};

class PackWindow final : public StreamOperation {
 public:
  using StreamOperation::StreamOperation;
  Status prepare(const OperationSetup& setup) override {
    std::vector<int32_t> positions(static_cast<size_t>(setup.max_rows));
    std::iota(positions.begin(), positions.end(), 1000);
    FATHOM_ASSIGN(positions_, activations_.of(DType::i32, {setup.max_rows}, positions));
    const std::vector<float> freqs = rope_frequencies({.dim = c_.rope_head_dim, .theta = c_.rope_theta});
    FATHOM_ASSIGN(freqs_, activations_.of(DType::f32, {c_.rope_head_dim / 2}, freqs));
    FATHOM_TRY(make(kv_, DType::bf16, {setup.max_rows, c_.head_dim}));
    return make(records_, DType::u8, {setup.max_rows, record_bytes()});
  }
  Work work(int64_t rows) override { return cached(rows, c_.head_dim * 2 + record_bytes()); }
  Status run(int64_t rows) override {
    ops_.pack_window({.kv = kv_.head(rows),
                      .positions = positions_.head(rows),
                      .freqs = freqs_,
                      .records = records_.head(rows)});
    return {};
  }

 private:
  int64_t record_bytes() const { return window_record(c_.head_dim).bytes(); }

  TensorRef positions_, freqs_, kv_, records_;
};

template <class T>
OperationSpec spec(std::string name, std::string shape) {
  return {.name = std::move(name),
          .shape = std::move(shape),
          .max_rows = 0,
          .make = [](const OperationSetup& setup) -> OperationPtr {
            auto operation = std::make_unique<T>(setup);
            FATHOM_TRY(operation->prepare(setup));
            return operation;
          }};
}

}  // namespace

void add_stream_operations(const ModelConfig& c, std::vector<OperationSpec>& out) {
  const std::string stream = fmt::format("{} x {}", c.hc_mult, c.dim);
  out.push_back(spec<HyperMix>("hyper_mix", fmt::format("f32 [{}, {}]", c.hc_mix(), c.hc_mult * c.dim)));
  out.push_back(spec<CollapseNorm>("collapse_norm", stream));
  out.push_back(spec<Expand>("expand", stream));
  out.push_back(spec<RmsNorm>("rms_norm", fmt::format("{}", c.q_lora_rank)));
  out.push_back(spec<PackWindow>("pack_window", fmt::format("{}", c.head_dim)));
}

}  // namespace fathom::bench
