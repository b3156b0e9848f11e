#include "model/memory_tiers.h"

#include <malloc.h>

#include <algorithm>

#include "base/memory_limit.h"
#include "model/sequence.h"
#include "model/workspace.h"

namespace fathom {

Result<std::unique_ptr<MemoryTiers>> MemoryTiers::open(const ModelConfig& config,
                                                       const Checkpoint& checkpoint,
                                                       const TensorTable& tensors, MemoryOptions options) {
  std::unique_ptr<MemoryTiers> tiers(new MemoryTiers(checkpoint, std::move(options)));
  const MemoryOptions& o = tiers->options_;
  const bool drafting = o.drafting && tensors.draft_available();
  std::vector<std::string> for_drafts;
  for (ExpectedTensor& tensor : make_manifest(config)) {
    if (!is_resident(tensor, drafting) || tensors.try_find(tensor.name) == nullptr) continue;
    if (!is_resident(tensor, false)) for_drafts.push_back(tensor.name);
    tiers->resident_names_.push_back(std::move(tensor.name));
  }
  tiers->needs_.draft_dense = ResidentWeights::bytes_for(tensors, for_drafts);
  FATHOM_ASSIGN(tiers->shards_, open_direct(checkpoint, o.mode));
  FATHOM_ASSIGN(tiers->reader_, AsyncReader::create(o.engine));
  tiers->experts_ = std::make_unique<ExpertCache>(checkpoint, tiers->shards_, *tiers->reader_);
  for (std::vector<ExpertWeights>& layer : bind_experts(config, tensors, drafting))
    tiers->experts_->add_layer(std::move(layer));
  if (const std::vector<Weight> tables = bind_engram_tables(config, tensors); !tables.empty())
    tiers->engram_ = std::make_unique<EngramRows>(checkpoint, tiers->shards_, *tiers->reader_, tables);
  tiers->find_needs(config, tensors);
  return tiers;
}

void MemoryTiers::find_needs(const ModelConfig& config, const TensorTable& tensors) {
  const MemoryOptions& o = options_;
  const bool drafting = o.drafting && tensors.draft_available();
  // What was only needed to read the files' headers is free again, but the allocator may still have it.
  (void)::malloc_trim(0);
  needs_.process = used_memory();
  needs_.dense = ResidentWeights::bytes_for(tensors, resident_names_);
  needs_.load_staging = ResidentWeights::staging_bytes;
  needs_.workspace = Workspace::bytes_for(config, o.max_rows) + working_bytes(config, o.max_rows, o.threads);
  needs_.sequence = Sequence::bytes_for(config, config.max_seq_len, drafting);
  needs_.slot = experts_->slot_bytes();
  needs_.num_experts = experts_->num_experts();
  needs_.min_slots = std::min(needs_.num_experts, min_expert_slots(config));
  if (engram_ == nullptr) return;
  needs_.min_engram_rows =
      o.max_rows * config.engram_columns() * static_cast<int64_t>(config.engram_layer_ids.size());
  needs_.engram_row = engram_->bytes_for(1, 0);
  needs_.engram_staging = EngramRows::min_staging_bytes;
  needs_.max_engram_staging =
      std::max(EngramRows::min_staging_bytes, EngramRows::staging_for(needs_.min_engram_rows));
}

Status MemoryTiers::fill(TensorTable& tensors) {
  FATHOM_ASSIGN(plan_, plan_memory(needs_, options_.budget));
  if (options_.max_slots > 0) plan_.num_slots = std::min(plan_.num_slots, options_.max_slots);
  FATHOM_ASSIGN(resident_, ResidentWeights::load(checkpoint_, shards_, *reader_, resident_names_, tensors,
                                                 options_.hooks));
  FATHOM_TRY(experts_->reserve(plan_.num_slots));
  if (engram_ != nullptr) FATHOM_TRY(engram_->reserve(plan_.num_engram_rows, plan_.engram_staging));
  return {};
}

MemoryCounters MemoryTiers::counters() const {
  return {experts_->counters(), engram_ == nullptr ? EngramCounters{} : engram_->counters()};
}

}  // namespace fathom
