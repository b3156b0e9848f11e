#include "model/draft.h"

#include <algorithm>
#include <cmath>

namespace fathom {

DraftModel::DraftModel(const ModelConfig& config, const ModelWeights& weights, TensorView freqs,
                       ExpertCache* experts)
    : config_(config), weights_(weights), w_(*weights.draft) {
  for (size_t i = 0; i < w_.stages.size(); ++i) {
    NextLayer next;
    if (experts != nullptr && i + 1 < w_.stages.size()) next = {&w_.stages[i + 1], experts};
    stages_.emplace_back(config, w_.stages[i], freqs, config.n_layers + static_cast<int64_t>(i), next);
  }
}

Status DraftModel::append(Ops& ops, const Batch& b, Workspace& s) const {
  const TensorRef x = s.x.head(b.rows);
  FATHOM_TRY(ops.linear({.in = s.main_hidden.head(b.rows), .weight = w_.main_proj, .out = x}));
  ops.rms_norm({.in = x, .weight = w_.main_norm, .eps = config_.norm_eps, .out = x});
  for (const Layer& stage : stages_) FATHOM_TRY(stage.attention().append_keys(ops, b, s));
  return {};
}

Result<DraftBlock> DraftModel::allocate(Ops& ops, int64_t requests, int64_t depth) const {
  DraftBlock block;
  block.requests = requests;
  block.depth = depth;
  int64_t bytes = 0;
  const auto place = [&](TensorRef& t, DType dtype, Shape shape) {
    constexpr int64_t alignment = 64;
    t = {block.memory.data() == nullptr ? nullptr : block.memory.data() + bytes, dtype, shape};
    bytes += (shape.elements() * dtype_bytes(dtype) + alignment - 1) / alignment * alignment;
  };
  const auto layout = [&] {
    bytes = 0;
    place(block.x, DType::bf16, {requests, depth, config_.dim});
    place(block.logits, DType::f32, {requests, depth, config_.vocab_size});
    place(block.previous, DType::i32, {requests});
    place(block.confidence, DType::f32, {requests});
  };
  layout();
  FATHOM_ASSIGN(block.memory, ops.allocate(bytes));
  layout();
  return block;
}

Result<DraftBlock> DraftModel::begin(Ops& ops, Workspace& s, std::span<const DraftRequest> requests,
                                     int64_t depth) const {
  const int64_t size = config_.dspark_block_size;
  FATHOM_CHECK(!requests.empty());
  FATHOM_CHECK_LE(1, depth);
  FATHOM_CHECK_LE(depth, size);
  const auto total = static_cast<int64_t>(requests.size());
  FATHOM_ASSIGN(DraftBlock block, allocate(ops, total, depth));
  const TensorRef x = block.x.reshaped({total * depth, config_.dim});
  const TensorRef logits = block.logits.reshaped({total * depth, config_.vocab_size});

  // As many blocks at once as the workspace holds. Blocks do not see each other.
  const int64_t at_once = std::max<int64_t>(1, s.max_rows() / size);
  for (int64_t done = 0; done < total; done += at_once) {
    const int64_t count = std::min(at_once, total - done);
    FATHOM_TRY(run_stages(ops, s, requests.subspan(static_cast<size_t>(done), static_cast<size_t>(count))));
    for (int64_t q = 0; q < count; ++q)
      ops.collapse_norm({.stream = s.stream.slice(q * size, depth),
                         .pre = s.pre.slice(q * size, depth),
                         .weight = {},
                         .out = x.slice((done + q) * depth, depth)});
    const TensorRef rows = x.slice(done * depth, count * depth);
    const TensorRef normed = s.y.head(count * depth);
    ops.rms_norm({.in = rows, .weight = w_.norm, .eps = config_.norm_eps, .out = normed});
    FATHOM_TRY(ops.linear(
        {.in = normed, .weight = weights_.head, .out = logits.slice(done * depth, count * depth)}));
  }
  return block;
}

// Leaves stream and pre of the last stage in the workspace.
Status DraftModel::run_stages(Ops& ops, Workspace& s, std::span<const DraftRequest> requests) const {
  const int64_t size = config_.dspark_block_size;
  Batch b;
  b.block = true;
  std::vector<int32_t> ids;
  std::vector<int32_t> positions;
  for (const DraftRequest& r : requests) {
    FATHOM_CHECK(r.sequence->drafting() && !r.sequence->poisoned());
    FATHOM_CHECK_LE(1, r.sequence->length());
    FATHOM_CHECK(r.token >= 0 && r.token < config_.vocab_size);
    const int64_t first = r.sequence->length();
    b.sequences.push_back(r.sequence);
    b.spans.push_back({b.rows, size, first});
    for (int64_t i = 0; i < size; ++i) {
      ids.push_back(i == 0 ? r.token : static_cast<int32_t>(config_.dspark_noise_token_id));
      positions.push_back(static_cast<int32_t>(first + i));
    }
    b.rows += size;
  }
  ops.copy_in(s.ids.head(b.rows), ids.data());
  ops.copy_in(s.positions.head(b.rows), positions.data());
  ops.embed({.ids = s.ids.head(b.rows),
             .table = weights_.embed,
             .stream = s.stream.head(b.rows),
             .pre = s.pre.head(b.rows)});
  for (const Layer& stage : stages_) FATHOM_TRY(stage.forward(ops, b, s));
  return {};
}

Result<DraftStep> DraftModel::next(Ops& ops, DraftBlock& block, std::span<const int32_t> previous) const {
  FATHOM_CHECK_EQ(static_cast<int64_t>(previous.size()), block.requests);
  FATHOM_CHECK(block.step < block.depth);
  ops.copy_in(block.previous, previous.data());
  ops.markov_step({.x = block.x,
                   .step = block.step,
                   .previous = block.previous,
                   .embed = w_.markov_embed,
                   .head = w_.markov_head,
                   .proj = w_.confidence_proj,
                   .logits = block.logits,
                   .confidence = block.confidence});
  const int64_t vocab = config_.vocab_size;
  DraftStep step{vocab, std::vector<float>(static_cast<size_t>(block.requests * vocab)),
                 std::vector<float>(static_cast<size_t>(block.requests))};
  const TensorRef rows = block.logits.reshaped({block.requests * block.depth, vocab});
  for (int64_t q = 0; q < block.requests; ++q)
    ops.copy_out(step.logits.data() + q * vocab, rows.slice(q * block.depth + block.step, 1));
  ops.copy_out(step.confidence.data(), block.confidence);
  ++block.step;
  const auto finite = [](float v) { return std::isfinite(v); };
  if (!std::all_of(step.logits.begin(), step.logits.end(), finite) ||
      !std::all_of(step.confidence.begin(), step.confidence.end(), finite))
    return fail(ErrorCode::format, "the draft stages' logits are not finite: their weights are damaged");
  return step;
}

}  // namespace fathom
