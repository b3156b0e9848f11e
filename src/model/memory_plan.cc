#include "model/memory_plan.h"

#include <algorithm>

#include "base/size_text.h"

namespace fathom {
namespace {

constexpr int64_t mebibyte = int64_t{1} << 20;

}  // namespace

int64_t MemoryPlan::bytes() const {
  return needs.fixed() + num_slots * needs.slot +
         (num_engram_rows - needs.min_engram_rows) * needs.engram_row +
         (engram_staging - needs.engram_staging);
}

int64_t MemoryNeeds::told_process() const {
  // Coarse, so that every run tells the same number nearly always.
  constexpr int64_t grain = 16 * mebibyte;
  constexpr int64_t variation = 4 * mebibyte;
  return (process + process / 16 + variation + grain - 1) / grain * grain;
}

int64_t MemoryNeeds::told_budget() const {
  const int64_t bytes = smallest_budget() - process + told_process();
  return (bytes + mebibyte - 1) / mebibyte * mebibyte;
}

double MemoryPlan::expert_share() const {
  if (needs.num_experts == 0) return 1;
  return static_cast<double>(num_slots) / static_cast<double>(needs.num_experts);
}

Result<MemoryPlan> plan_memory(const MemoryNeeds& n, int64_t budget) {
  if (budget < n.smallest_budget()) {
    const int64_t rows = n.min_engram_rows * n.engram_row + n.engram_staging;
    return fail(
        ErrorCode::invalid_argument,
        "{} of memory is too little for this model: the smallest that works is {}M: {} of dense "
        "weights, {} of activations, {} of sequence state, {} for n-gram rows, {} experts of {}, and {} "
        "for the process itself",
        size_text(budget), n.told_budget() / mebibyte, size_text(n.dense), size_text(n.workspace),
        size_text(n.sequence), size_text(rows), n.min_slots, size_text(n.slot), size_text(n.told_process()));
  }
  MemoryPlan plan{n, budget, n.min_slots, n.min_engram_rows, n.engram_staging};
  int64_t left = budget - n.fixed() - n.min_slots * n.slot;
  if (n.engram_row > 0) {
    plan.engram_staging =
        std::max(n.engram_staging, std::min({n.max_engram_staging, budget / 64, n.engram_staging + left}));
    left -= plan.engram_staging - n.engram_staging;
    const int64_t for_rows = std::min({left, budget / 32, 256 * mebibyte});
    plan.num_engram_rows += for_rows / n.engram_row;
    left -= for_rows;
  }
  if (n.slot > 0) plan.num_slots = std::min(n.num_experts, plan.num_slots + left / n.slot);
  return plan;
}

int64_t working_bytes(const ModelConfig& c, int64_t max_rows, int threads) {
  const int64_t chosen = std::max(c.n_activated_experts, c.dspark_n_activated_experts);
  const int64_t widest = std::max({c.n_heads * c.head_dim, c.hc_mult * c.dim,
                                   c.engram_columns() * c.engram_head_dim, 3 * c.moe_inter_dim});
  const int64_t floats = (chosen + 4) * c.dim + 2 * widest + c.n_routed_experts;
  // Some dozen weight rows, as 16-bit or 32-bit numbers; results of some hundred of them.
  const int64_t of_thread = 100 * widest + max_rows * 2048 + mebibyte / 2;
  // Logits of one position twice, as the backend's and as the caller's; small allocations.
  return max_rows * floats * 4 + 4 * c.vocab_size * 4 + threads * of_thread + 48 * mebibyte;
}

int64_t min_expert_slots(const ModelConfig& c) {
  return std::max(c.n_activated_experts, c.dspark_n_activated_experts) + 2;
}

int64_t memory_headroom(int64_t available) {
  return std::min(available / 8, std::clamp(available / 16, 256 * mebibyte, 2048 * mebibyte));
}

}  // namespace fathom
