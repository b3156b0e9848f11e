#include "cli/draft_report.h"

#include <fmt/format.h>

namespace fathom {
namespace {

Status remark(const Surroundings& surroundings, std::string_view text) {
  FATHOM_TRY(surroundings.err.write(fmt::format("fathom: {}\n", text)));
  return surroundings.err.flush();
}

}  // namespace

Status remark_on_drafting(const Surroundings& surroundings, const DraftFlags& flags, const Model& model) {
  if (!flags.on() || model.can_draft()) return {};
  return remark(surroundings, fmt::format("running without drafts: {}", model.tensors().draft_problem()));
}

Status remark_on_drafting(const Surroundings& surroundings, const DraftStats& stats) {
  if (stats.problem.empty()) return {};
  return remark(surroundings, fmt::format("went on without drafts: {}", stats.problem));
}

Json draft_json(const DraftFlags& flags, const Model& model, const DraftStats& stats) {
  if (!flags.on()) return {{"enabled", false}, {"reason", "not asked for"}};
  if (!model.can_draft()) return {{"enabled", false}, {"reason", model.tensors().draft_problem()}};
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
