// Attention over the window and picked keys, and the choice of those keys.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "bench/activations.h"
#include "bench/operation.h"
#include "bench/picks.h"
#include "bench/record_blocks.h"
#include "bench/weight_store.h"
#include "model/rope_table.h"

namespace fathom::bench {
namespace {

constexpr int64_t context_positions = int64_t{1} << 16;

class SparseAttention final : public Operation {
 public:
  explicit SparseAttention(const OperationSetup& setup)
      : c_(setup.config), ops_(setup.ops), slots_(c_.window_size), activations_(setup.ops) {}

  Status prepare(const OperationSetup& setup) {
    const int64_t rows = setup.max_rows;
    const int64_t bytes = slots_ * record_bytes(RecordKind::window, c_.head_dim) +
                          context_positions * record_bytes(RecordKind::compressed, c_.head_dim);
    for (int64_t i = 0; i < copies_for(bytes, setup.rotation_bytes); ++i) {
      FATHOM_ASSIGN(RecordBlocks ring, RecordBlocks::create(RecordKind::window, c_.head_dim, slots_));
      rings_.push_back(std::move(ring));
      FATHOM_ASSIGN(RecordBlocks keys,
                    RecordBlocks::create(RecordKind::compressed, c_.head_dim, context_positions));
      keys_.push_back(std::move(keys));
    }
    const int64_t width = record_bytes(RecordKind::window, c_.head_dim);
    FATHOM_ASSIGN(own_, activations_.zeros(DType::u8, {rows, width}));
    std::vector<std::byte> own(static_cast<size_t>(rows * width));
    fill_records(own.data(), RecordKind::window, c_.head_dim, rows);
    ops_.copy_in(own_, own.data());
    std::vector<int32_t> positions(static_cast<size_t>(rows));
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(context_positions));
    FATHOM_ASSIGN(positions_, activations_.of(DType::i32, {rows}, positions));
    FATHOM_ASSIGN(picked_, activations_.of(DType::i32, {rows, c_.index_topk},
                                           random_picks(rows, c_.index_topk, context_positions)));
    const std::vector<int32_t> counts(static_cast<size_t>(rows), static_cast<int32_t>(c_.index_topk));
    FATHOM_ASSIGN(num_picked_, activations_.of(DType::i32, {rows}, counts));
    FATHOM_ASSIGN(sink_, activations_.random(DType::f32, {c_.n_heads}));
    const std::vector<float> freqs = rope_frequencies({.dim = c_.rope_head_dim, .theta = c_.rope_theta});
    FATHOM_ASSIGN(freqs_, activations_.of(DType::f32, {c_.rope_head_dim / 2}, freqs));
    FATHOM_ASSIGN(q_, activations_.random(DType::bf16, {rows, c_.n_heads, c_.head_dim}));
    FATHOM_ASSIGN(out_, activations_.zeros(DType::bf16, {rows, c_.n_heads, c_.head_dim}));
    return {};
  }

  Work work(int64_t rows) override {
    const int64_t window = (c_.window_size - 1 + rows) * record_bytes(RecordKind::window, c_.head_dim);
    const int64_t picked =
        std::min(rows * c_.index_topk, context_positions) * record_bytes(RecordKind::compressed, c_.head_dim);
    // Scores and sums: two products with every key.
    return {.bytes = static_cast<double>(window + picked),
            .flop = 4 * static_cast<double>(rows * c_.n_heads) *
                    static_cast<double>((c_.window_size + c_.index_topk) * c_.head_dim)};
  }

  Status run(int64_t rows) override {
    const size_t copy = next_++ % keys_.size();
    const RowSpan span{0, rows, context_positions};
    const RingView ring = rings_[copy].ring(slots_);
    const RecordsView keys = keys_[copy].view();
    ops_.sparse_attention({.q = q_.head(rows),
                           .window_records = own_.head(rows),
                           .spans = std::span(&span, 1),
                           .rings = std::span(&ring, 1),
                           .window_size = c_.window_size,
                           .compressed = std::span(&keys, 1),
                           .picked = picked_.head(rows),
                           .num_picked = num_picked_.head(rows),
                           .sink = sink_,
                           .positions = positions_.head(rows),
                           .freqs = freqs_,
                           .out = out_.head(rows)});
    return {};
  }

 private:
  const ModelConfig& c_;
  Ops& ops_;
  int64_t slots_;
  Activations activations_;
  std::vector<RecordBlocks> rings_, keys_;
  size_t next_ = 0;
  TensorRef q_, own_, positions_, picked_, num_picked_, sink_, freqs_, out_;
};

// Among `visible` keys; or, as the user of candidate blocks, in those alone.
class IndexSelect final : public Operation {
 public:
  IndexSelect(const OperationSetup& setup, int64_t visible, bool user)
      : c_(setup.config), ops_(setup.ops), visible_(visible), user_(user), activations_(setup.ops) {}

  Status prepare(const OperationSetup& setup) {
    const int64_t rows = setup.max_rows;
    const int64_t count = visible_ + rows;
    const int64_t bytes = count * record_bytes(RecordKind::index, c_.index_head_dim);
    for (int64_t i = 0; i < copies_for(bytes, setup.rotation_bytes); ++i) {
      FATHOM_ASSIGN(RecordBlocks keys, RecordBlocks::create(RecordKind::index, c_.index_head_dim, count));
      keys_.push_back(std::move(keys));
    }
    FATHOM_ASSIGN(queries_, activations_.random(DType::bf16, {rows, c_.index_n_heads, c_.index_head_dim}));
    FATHOM_ASSIGN(const TensorRef positions, activations_.zeros(DType::i32, {rows}));
    FATHOM_ASSIGN(const TensorRef freqs, activations_.zeros(DType::f32, {c_.rope_head_dim / 2}));
    ops_.index_query({.x = queries_, .positions = positions, .freqs = freqs});  // onto the FP4 grid
    FATHOM_ASSIGN(head_weights_, activations_.random(DType::bf16, {rows, c_.index_n_heads}));
    const int64_t blocks = std::max<int64_t>(c_.candidate_topk_blocks, 1);
    num_candidates_each_ = std::min(blocks, visible_ / block_size());
    FATHOM_ASSIGN(candidates_,
                  activations_.of(DType::i32, {rows, num_candidates_each_},
                                  random_picks(rows, num_candidates_each_, visible_ / block_size())));
    const std::vector<int32_t> counts(static_cast<size_t>(rows), static_cast<int32_t>(num_candidates_each_));
    FATHOM_ASSIGN(num_candidates_, activations_.of(DType::i32, {rows}, counts));
    FATHOM_ASSIGN(picked_, activations_.zeros(DType::i32, {rows, c_.index_topk}));
    FATHOM_ASSIGN(num_picked_, activations_.zeros(DType::i32, {rows}));
    return {};
  }

  Work work(int64_t rows) override {
    const int64_t keys = user_ ? std::min(num_candidates_each_ * block_size(), visible_) : visible_;
    const int64_t read = user_ ? std::min(rows * keys, visible_) : visible_ + rows - 1;
    return {.bytes = static_cast<double>(read * record_bytes(RecordKind::index, c_.index_head_dim)),
            .flop = 2 * static_cast<double>(rows * keys) *
                    static_cast<double>(c_.index_n_heads * c_.index_head_dim)};
  }

  Status run(int64_t rows) override {
    const RowSpan span{0, rows, visible_ - 1};
    const RecordsView keys = keys_[next_++ % keys_.size()].view();
    const auto scale =
        static_cast<float>(1 / std::sqrt(static_cast<double>(c_.index_head_dim * c_.index_n_heads)));
    return ops_.index_select({.queries = queries_.head(rows),
                              .head_weights = head_weights_.head(rows),
                              .weight_scale = scale,
                              .spans = std::span(&span, 1),
                              .keys = std::span(&keys, 1),
                              .ratio = 1,
                              .role = user_ ? CandidateRole::user : CandidateRole::none,
                              .candidate_block_size = block_size(),
                              .candidates = candidates_.head(rows),
                              .num_candidates = num_candidates_.head(rows),
                              .picked = picked_.head(rows),
                              .num_picked = num_picked_.head(rows),
                              .scores = {}});
  }

 private:
  int64_t block_size() const { return std::max<int64_t>(c_.candidate_block_size, 1); }

  const ModelConfig& c_;
  Ops& ops_;
  int64_t visible_;
  bool user_;
  int64_t num_candidates_each_ = 0;
  Activations activations_;
  std::vector<RecordBlocks> keys_;
  size_t next_ = 0;
  TensorRef queries_, head_weights_, candidates_, num_candidates_, picked_, num_picked_;
};

OperationSpec index_select(std::string name, const ModelConfig& c, int64_t visible, bool user,
                           int64_t max_rows) {
  return {.name = std::move(name),
          .shape = fmt::format("{} x {}, {} keys", c.index_n_heads, c.index_head_dim,
                               user ? c.candidate_topk_blocks * c.candidate_block_size : visible),
          .max_rows = max_rows,
          .make = [visible, user](const OperationSetup& setup) -> OperationPtr {
            auto operation = std::make_unique<IndexSelect>(setup, visible, user);
            FATHOM_TRY(operation->prepare(setup));
            return operation;
          }};
}

}  // namespace

void add_attention_operations(const ModelConfig& c, std::vector<OperationSpec>& out) {
  if (c.index_source_layers.empty()) return;
  out.push_back(
      {.name = "sparse_attention",
       .shape = fmt::format("{} x {}, {}+{} keys", c.n_heads, c.head_dim, c.window_size, c.index_topk),
       .max_rows = 0,
       .make = [](const OperationSetup& setup) -> OperationPtr {
         auto operation = std::make_unique<SparseAttention>(setup);
         FATHOM_TRY(operation->prepare(setup));
         return operation;
       }});
  out.push_back(index_select("index_select.64k", c, int64_t{1} << 16, false, 64));
  out.push_back(index_select("index_select.1m", c, int64_t{1} << 20, false, 16));
  if (c.candidate_topk_blocks > 0)
    out.push_back(index_select("index_select.user", c, int64_t{1} << 20, true, 64));
}

}  // namespace fathom::bench
