#include "cli/draft_report.h"

#include <fmt/format.h>

#include <algorithm>

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

std::string speed_line(const Environment& env, const Generation& generation) {
  const auto rate = [](int64_t tokens, double seconds) {
    return fmt::format("{:.1f} a second", static_cast<double>(tokens) / std::max(seconds, 1e-9));
  };
  const auto answer = static_cast<int64_t>(generation.ids.size());
  const int64_t prompt = generation.prompt_tokens - generation.cached_tokens;
  std::string line = fmt::format("[{} tokens, {}", answer, rate(answer, generation.decode_seconds));
  if (prompt > 0) line += fmt::format("; prompt {}, {}", prompt, rate(prompt, generation.prefill_seconds));
  if (const DraftStats& drafts = generation.drafts; drafts.offered > 0)
    line += fmt::format("; {:.2f} of {:.2f} drafts accepted a pass", drafts.mean_accepted(),
                        drafts.mean_offered());
  return env.styled ? fmt::format("\x1b[2m{}]\x1b[0m\n", line) : line + "]\n";
}

}  // namespace fathom
