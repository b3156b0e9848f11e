// The router and the experts.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>

#include "bench/activations.h"
#include "bench/operation.h"
#include "bench/random_experts.h"
#include "bench/spare_memory.h"

namespace fathom::bench {
namespace {

class Route final : public Operation {
 public:
  explicit Route(const OperationSetup& setup)
      : c_(setup.config), ops_(setup.ops), store_(setup.threads), activations_(setup.ops) {}

  Status prepare(const OperationSetup& setup) {
    const int64_t rows = setup.max_rows;
    const int64_t copies = copies_for(c_.n_routed_experts * c_.dim * 2, setup.rotation_bytes);
    for (int64_t i = 0; i < copies; ++i) {
      FATHOM_ASSIGN(const TensorView gate, store_.tensor(DType::bf16, {c_.n_routed_experts, c_.dim}));
      gates_.push_back(gate);
    }
    FATHOM_ASSIGN(bias_, store_.tensor(DType::f32, {c_.n_routed_experts}));
    FATHOM_ASSIGN(x_, activations_.random(DType::bf16, {rows, c_.dim}));
    FATHOM_ASSIGN(experts_, activations_.zeros(DType::i32, {rows, c_.n_activated_experts}));
    FATHOM_ASSIGN(weights_, activations_.zeros(DType::f32, {rows, c_.n_activated_experts}));
    return {};
  }
  Work work(int64_t rows) override {
    const auto values = static_cast<double>(c_.n_routed_experts * c_.dim);
    return {.bytes = values * 2, .flop = 2 * static_cast<double>(rows) * values};
  }
  Status run(int64_t rows) override {
    return ops_.route({.x = x_.head(rows),
                       .gate = gates_[next_++ % gates_.size()],
                       .bias = bias_,
                       .image_bias = {},
                       .image_rows = {},
                       .route_scale = c_.route_scale,
                       .experts = experts_.head(rows),
                       .weights = weights_.head(rows)});
  }

 private:
  const ModelConfig& c_;
  Ops& ops_;
  WeightStore store_;
  Activations activations_;
  std::vector<TensorView> gates_;
  size_t next_ = 0;
  TensorView bias_;
  TensorRef x_, experts_, weights_;
};

// Which experts the rows of one run take.
struct Routing {
  TensorRef experts;
  int64_t num_distinct = 0;
};

class Experts final : public Operation {
 public:
  explicit Experts(const OperationSetup& setup)
      : c_(setup.config),
        ops_(setup.ops),
        experts_(setup.config, setup.num_experts, setup.threads),
        activations_(setup.ops) {}

  Status prepare(const OperationSetup& setup) {
    // The weights say themselves when they do not fit; what the operation works in cannot.
    FATHOM_TRY(
        check_room(setup.num_experts * RandomExperts::bytes_of_one(c_) + working_bytes(setup.max_rows)));
    FATHOM_TRY(experts_.prepare(setup.rotation_bytes, setup.cancelled));
    source_.emplace(experts_.routed());
    order_.resize(static_cast<size_t>(setup.num_experts));
    std::iota(order_.begin(), order_.end(), 0);
    std::shuffle(order_.begin(), order_.end(), random_);
    FATHOM_ASSIGN(x_, activations_.random(DType::bf16, {setup.max_rows, c_.dim}));
    FATHOM_ASSIGN(weights_, activations_.random(DType::f32, {setup.max_rows, c_.n_activated_experts}));
    FATHOM_ASSIGN(out_, activations_.zeros(DType::bf16, {setup.max_rows, c_.dim}));
    return {};
  }
  Work work(int64_t rows) override {
    double distinct = 0;
    const std::vector<Routing>& all = routings(rows);
    for (const Routing& routing : all) distinct += static_cast<double>(routing.num_distinct);
    distinct /= static_cast<double>(all.size());
    const auto values = static_cast<double>(3 * c_.moe_inter_dim * c_.dim);
    return {.bytes = distinct * static_cast<double>(bytes_of(experts_.routed()[0])) +
                     static_cast<double>(bytes_of(experts_.shared(0))),
            .flop = 2 * static_cast<double>(rows * (c_.n_activated_experts + 1)) * values};
  }
  Status run(int64_t rows) override {
    const std::vector<Routing>& all = routings(rows);
    const size_t i = next_++;
    return ops_.expert_layer({.x = x_.head(rows),
                              .experts = all[i % all.size()].experts,
                              .weights = weights_.head(rows),
                              .routed = &*source_,
                              .shared = &experts_.shared(i),
                              .swiglu_limit = c_.swiglu_limit,
                              .out = out_.head(rows)});
  }

 private:
  // About: inputs, hidden rows and results as floats, as the exact path has them; the fast one takes half.
  int64_t working_bytes(int64_t rows) const {
    const int64_t used = c_.n_activated_experts + 1;
    return rows * ((used + 1) * c_.dim + 2 * used * c_.moe_inter_dim) * int64_t{sizeof(float)};
  }

  // Rows take random experts, as tokens do. A single row goes through all of them in turn, so that it comes
  // back to an expert as late as possible.
  const std::vector<Routing>& routings(int64_t rows) {
    std::vector<Routing>& all = routings_[rows];
    const auto k = static_cast<size_t>(c_.n_activated_experts);
    const size_t count = rows == 1 ? order_.size() / k : 16;
    while (all.size() < count) {
      std::vector<int32_t> chosen;
      for (int64_t r = 0; r < rows; ++r) {
        if (rows == 1)
          std::rotate(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(k), order_.end());
        else
          std::shuffle(order_.begin(), order_.end(), random_);
        chosen.insert(chosen.end(), order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(k));
      }
      const auto ref = activations_.of(DType::i32, {rows, c_.n_activated_experts}, chosen);
      FATHOM_CHECK(ref.has_value());  // some kilobytes
      all.push_back({*ref, static_cast<int64_t>(std::set<int32_t>(chosen.begin(), chosen.end()).size())});
    }
    return all;
  }

  const ModelConfig& c_;
  Ops& ops_;
  RandomExperts experts_;
  std::optional<ResidentExperts> source_;
  Activations activations_;
  std::mt19937_64 random_{1};
  std::vector<int32_t> order_;
  std::map<int64_t, std::vector<Routing>> routings_;
  size_t next_ = 0;
  TensorRef x_, weights_, out_;
};

template <class T>
OperationPtr make(const OperationSetup& setup) {
  auto operation = std::make_unique<T>(setup);
  FATHOM_TRY(operation->prepare(setup));
  return operation;
}

}  // namespace

void add_expert_operations(const ModelConfig& c, std::vector<OperationSpec>& out) {
  out.push_back({"route", fmt::format("bf16 [{}, {}]", c.n_routed_experts, c.dim), 0, make<Route>});
  out.push_back({"expert_layer",
                 fmt::format("fp4 {}+1 x [{}, {}]", c.n_activated_experts, c.moe_inter_dim, c.dim), 0,
                 make<Experts>});
}

}  // namespace fathom::bench
