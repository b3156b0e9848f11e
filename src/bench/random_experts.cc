#include "bench/random_experts.h"

#include "base/cancel.h"

namespace fathom::bench {

Status RandomExperts::prepare(int64_t rotation_bytes, const std::function<bool()>& cancelled) {
  const int64_t inter = config_.moe_inter_dim;
  const int64_t dim = config_.dim;
  for (int64_t i = 0; i < num_routed_; ++i) {
    FATHOM_TRY(check_cancelled(cancelled));
    ExpertWeights expert;
    FATHOM_ASSIGN(expert.w1, store_.fp4(inter, dim));
    FATHOM_ASSIGN(expert.w3, store_.fp4(inter, dim));
    FATHOM_ASSIGN(expert.w2, store_.fp4(dim, inter));
    routed_.push_back(expert);
  }
  do {
    FATHOM_TRY(check_cancelled(cancelled));
    ExpertWeights expert;
    FATHOM_ASSIGN(expert.w1, store_.fp8(inter, dim));
    FATHOM_ASSIGN(expert.w3, store_.fp8(inter, dim));
    FATHOM_ASSIGN(expert.w2, store_.fp8(dim, inter));
    shared_.push_back(expert);
  } while (static_cast<int64_t>(shared_.size()) < copies_for(bytes_of(shared_[0]), rotation_bytes));
  return {};
}

int64_t RandomExperts::bytes_of_one(const ModelConfig& config) {
  const int64_t values = 3 * config.moe_inter_dim * config.dim;
  return values / 2 + values / fp4_weight_block.cols;
}

}  // namespace fathom::bench
