// Whole layers of the model at one row: what a token costs, everything between the operations included.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bench/activations.h"
#include "bench/operation.h"
#include "bench/picks.h"
#include "bench/random_layer.h"
#include "bench/record_blocks.h"
#include "model/layer.h"
#include "model/rope_table.h"

namespace fathom::bench {
namespace {

constexpr int64_t context_positions = int64_t{1} << 16;
constexpr int num_inputs = 64;  // different ones take different experts

class WholeLayer final : public Operation {
 public:
  WholeLayer(const OperationSetup& setup, int64_t index)
      : config_(with_experts(setup)),
        ops_(setup.ops),
        index_(index),
        context_(std::min(context_positions, config_.max_seq_len - 1)),
        experts_(config_, setup.num_experts, setup.threads),
        store_(setup.threads),
        activations_(setup.ops) {}

  Status prepare(const OperationSetup& setup) {
    FATHOM_TRY(experts_.prepare(setup.rotation_bytes, setup.cancelled));
    const std::vector<float> freqs =
        rope_frequencies({.dim = config_.rope_head_dim, .theta = config_.rope_theta});
    FATHOM_ASSIGN(const TensorRef freqs_ref, activations_.of(DType::f32, {config_.rope_head_dim / 2}, freqs));
    int64_t copies = 1;
    weights_.reserve(max_copies);
    for (int64_t i = 0; i < copies; ++i) {
      FATHOM_ASSIGN(LayerWeights weights,
                    random_layer(config_, index_, experts_, static_cast<size_t>(i), store_));
      weights_.push_back(std::move(weights));
      const auto own = static_cast<int64_t>(layer_weight_bytes(config_, weights_[0], 0));
      copies = std::min<int64_t>(copies_for(own, setup.rotation_bytes), max_copies);
    }
    for (const LayerWeights& weights : weights_) layers_.emplace_back(config_, weights, freqs_ref, index_);
    FATHOM_TRY(prepare_state());
    for (int i = 0; i < num_inputs; ++i) {
      FATHOM_ASSIGN(const TensorRef input,
                    activations_.random(DType::bf16, {1, config_.hc_mult, config_.dim}));
      inputs_.push_back(input);
    }
    FATHOM_ASSIGN(pre_, activations_.random(DType::f32, {1, config_.hc_mult}));
    return {};
  }

  Work work(int64_t) override {
    double bytes = layer_weight_bytes(config_, weights_[0], config_.n_activated_experts);
    bytes += static_cast<double>(config_.window_size * record_bytes(RecordKind::window, config_.head_dim));
    const int64_t visible = config_.ratio(index_) > 0 ? context_ / config_.ratio(index_) : 0;
    bytes += static_cast<double>(std::min(config_.index_topk, visible) *
                                 record_bytes(RecordKind::compressed, config_.head_dim));
    if (config_.is_index_source(index_)) {
      const bool user = AttentionPlan::of(config_, index_).candidates == CandidateRole::user;
      const int64_t candidates = config_.candidate_topk_blocks * config_.candidate_block_size;
      bytes += static_cast<double>((user ? std::min(candidates, visible) : visible) *
                                   record_bytes(RecordKind::index, config_.index_head_dim));
    }
    return {.bytes = bytes, .flop = 0};
  }

  Status run(int64_t) override {
    const size_t i = next_++;
    const TensorRef& input = inputs_[i % inputs_.size()];
    ops_.copy_in(workspace_->stream.head(1), input.data);
    ops_.copy_in(workspace_->pre.head(1), pre_.data);
    return layers_[i % layers_.size()].forward(ops_, batch_, *workspace_);
  }

 private:
  static constexpr size_t max_copies = 64;

  // The router must not choose experts that are not there.
  static ModelConfig with_experts(const OperationSetup& setup) {
    ModelConfig config = setup.config;
    config.n_routed_experts = setup.num_experts;
    return config;
  }

  // A sequence of context_ positions with random keys, and the next one as the batch.
  Status prepare_state() {
    FATHOM_ASSIGN(workspace_, Workspace::create(config_, ops_, 1));
    FATHOM_ASSIGN(sequence_, Sequence::create(config_, ops_, false));
    FATHOM_TRY(sequence_->reserve(context_ + 1));
    sequence_->advance(context_);
    const RingView ring = sequence_->window(index_);
    fill_records(ring.data, RecordKind::window, config_.head_dim, ring.slots);
    batch_.rows = 1;
    batch_.sequences = {&*sequence_};
    batch_.spans = {{0, 1, context_}};
    const auto position = static_cast<int32_t>(context_);
    ops_.copy_in(workspace_->positions.head(1), &position);
    const int64_t ratio = config_.ratio(index_);
    if (ratio == 0) return {};
    const int64_t source = AttentionPlan::of(config_, index_).source;
    for (std::byte* block : sequence_->compressed(source).blocks)
      fill_records(block, RecordKind::compressed, config_.head_dim, RecordStore::records_per_block);
    for (std::byte* block : sequence_->index_keys(source).blocks)
      fill_records(block, RecordKind::index, config_.index_head_dim, RecordStore::records_per_block);
    choose(context_ / ratio);
    return {};
  }

  // What index sources below have chosen.
  void choose(int64_t visible) {
    const auto set = [&](TensorRef picks, TensorRef count, int64_t most, int64_t among) {
      const auto k = static_cast<int32_t>(std::min(most, among));
      std::vector<int32_t> values = random_picks(1, k, among);
      values.resize(static_cast<size_t>(most));
      ops_.copy_in(picks.head(1), values.data());
      ops_.copy_in(count.head(1), &k);
    };
    set(workspace_->picked, workspace_->num_picked, config_.index_topk, visible);
    if (config_.candidate_block_size > 0)
      set(workspace_->candidates, workspace_->num_candidates, config_.candidate_topk_blocks,
          visible / config_.candidate_block_size);
  }

  ModelConfig config_;
  Ops& ops_;
  int64_t index_;
  int64_t context_;
  RandomExperts experts_;
  WeightStore store_;
  Activations activations_;
  std::vector<LayerWeights> weights_;
  std::vector<Layer> layers_;
  std::optional<Workspace> workspace_;
  std::optional<Sequence> sequence_;
  Batch batch_;
  std::vector<TensorRef> inputs_;
  TensorRef pre_;
  size_t next_ = 0;
};

}  // namespace

void add_layer_operations(const ModelConfig& c, std::vector<OperationSpec>& out) {
  // One of each kind: window only, with the choice of a layer below, with its own choice, with its own keys.
  enum class LayerKind { window, borrowing, indexing, source };
  const auto kind_of = [&](int64_t layer) {
    if (c.ratio(layer) == 0) return LayerKind::window;
    if (c.is_kv_source(layer)) return LayerKind::source;
    return c.is_index_source(layer) ? LayerKind::indexing : LayerKind::borrowing;
  };
  const auto add = [&](LayerKind kind, const char* name) {
    // The last of a kind: most layers are of ratio 1, as the last ones are.
    for (int64_t layer = c.n_layers - 1; layer >= 0; --layer) {
      if (kind_of(layer) != kind || c.engram_index(layer) >= 0) continue;
      out.push_back(
          {.name = fmt::format("layer.{}", name),
           .shape = fmt::format("layer {} at {}", layer, std::min(context_positions, c.max_seq_len - 1)),
           .max_rows = 1,
           .make = [layer](const OperationSetup& setup) -> OperationPtr {
             auto operation = std::make_unique<WholeLayer>(setup, layer);
             FATHOM_TRY(operation->prepare(setup));
             return operation;
           }});
      return;
    }
  };
  add(LayerKind::window, "window");
  add(LayerKind::borrowing, "borrowing");
  add(LayerKind::indexing, "indexing");
  add(LayerKind::source, "source");
}

}  // namespace fathom::bench
