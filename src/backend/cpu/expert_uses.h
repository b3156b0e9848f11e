// Which rows use which routed expert.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/cpu/context.h"
#include "ops/params.h"

namespace fathom::cpu {

/// One row's use of an expert; its result belongs in slot row * k + choice.
struct ExpertUse {
  int64_t row = 0;
  int64_t slot = 0;
  float weight = 0;
};

/// The choices of an expert layer's rows, by expert.
struct ExpertUses {
  std::vector<int32_t> experts;              // those in use, ascending
  std::vector<std::vector<ExpertUse>> uses;  // by expert; ascending rows

  explicit ExpertUses(const ExpertLayerParams& p) : uses(static_cast<size_t>(p.routed->size())) {
    const int64_t k = p.experts.shape[1];
    const int32_t* chosen = elements<int32_t>(p.experts);
    const float* weights = elements<float>(p.weights);
    for (int64_t slot = 0; slot < p.x.shape[0] * k; ++slot)
      uses[static_cast<size_t>(chosen[slot])].push_back({slot / k, slot, weights[slot]});
    for (size_t e = 0; e < uses.size(); ++e)
      if (!uses[e].empty()) experts.push_back(static_cast<int32_t>(e));
  }

  const std::vector<ExpertUse>& of(int32_t expert) const { return uses[static_cast<size_t>(expert)]; }
};

/// The slots of one row in ascending order of their experts: the order in which their results are added.
inline std::vector<int64_t> ascending_slots(const ExpertLayerParams& p, int64_t row) {
  const int64_t k = p.experts.shape[1];
  const int32_t* chosen = elements<int32_t>(p.experts);
  std::vector<int64_t> slots(static_cast<size_t>(k));
  for (int64_t i = 0; i < k; ++i) slots[static_cast<size_t>(i)] = row * k + i;
  std::sort(slots.begin(), slots.end(), [&](int64_t a, int64_t b) { return chosen[a] < chosen[b]; });
  return slots;
}

}  // namespace fathom::cpu
