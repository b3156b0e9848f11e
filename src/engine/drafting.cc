#include "engine/drafting.h"

#include <cmath>
#include <optional>

namespace fathom {

DraftStats& DraftStats::operator+=(const DraftStats& other) {
  passes += other.passes;
  offered += other.offered;
  accepted += other.accepted;
  settled += other.settled;
  if (problem.empty()) problem = other.problem;
  return *this;
}

bool DraftDepth::one_more(float confidence) {
  const double reached = reached_ / (1 + std::exp(-static_cast<double>(confidence)));
  // Worth it while tokens per cost grow. Later drafts are less probable, so the first refusal is the last.
  if (reached * spent_ <= expected_ * costs_.row) return false;
  reached_ = reached;
  expected_ += reached;
  spent_ += costs_.row;
  return true;
}

Result<std::vector<int32_t>> draft_tokens(LanguageSequence& sequence, const Sampler& sampler, int32_t token,
                                          int64_t most, const DraftSettings& settings, DraftCosts costs,
                                          SamplerScratch& scratch) {
  Sampler ahead = sampler;  // as if every draft were accepted
  DraftDepth depth(costs);
  return sequence.draft(
      token, most, [&](std::span<const float> logits, float confidence) -> Result<std::optional<int32_t>> {
        if (settings.adaptive && !depth.one_more(confidence)) return std::nullopt;
        FATHOM_ASSIGN(const int32_t id, ahead.sample(logits, scratch));
        ahead.accept(id);
        return id;
      });
}

}  // namespace fathom
