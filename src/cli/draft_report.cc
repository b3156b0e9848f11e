#include "cli/draft_report.h"

#include <fmt/format.h>

#include "checkpoint/problems.h"
#include "cli/remark.h"

namespace fathom {

void remark_on_drafting(const Surroundings& surroundings, const DraftFlags& flags, const Model& model) {
  if (!flags.on() || model.can_draft()) return;
  remark(surroundings,
         fmt::format("running without drafts: {}", in_one_line(model.tensors().draft_problem())));
}

void remark_on_drafting(const Surroundings& surroundings, const DraftStats& stats) {
  if (!stats.problem.empty())
    remark(surroundings, fmt::format("went on without drafts: {}", in_one_line(stats.problem)));
}

Json draft_json(const DraftFlags& flags, const Model& model, const DraftStats& stats) {
  if (!flags.on()) return {{"enabled", false}, {"reason", "not asked for"}};
  if (!model.can_draft())
    return {{"enabled", false}, {"reason", in_one_line(model.tensors().draft_problem())}};
  Json out = {{"enabled", true},
              {"passes", stats.passes},
              {"offered", stats.offered},
              {"accepted", stats.accepted},
              {"mean_accepted", stats.mean_accepted()},
              {"passes_per_token", stats.passes_per_token()}};
  if (!stats.problem.empty()) out["problem"] = stats.problem;
  return out;
}

std::string draft_text(const DraftStats& stats) {
  return fmt::format("{:.2f} of {:.2f} drafts accepted a pass", stats.mean_accepted(), stats.mean_offered());
}

}  // namespace fathom
