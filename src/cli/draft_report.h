// What the commands say about drafting, and how fast an answer came.
#pragma once

#include <string>

#include "base/json.h"
#include "cli/command.h"
#include "cli/options.h"
#include "engine/drafting.h"
#include "engine/generator.h"
#include "model/model.h"

namespace fathom {

/// Where drafting is asked for and the checkpoint cannot, says so on standard error. An answer does not
/// depend on whether the remark can be written.
void remark_on_drafting(const Surroundings& surroundings, const DraftFlags& flags, const Model& model);

/// The same for answers whose drafting was given up on the way.
void remark_on_drafting(const Surroundings& surroundings, const DraftStats& stats);

/// {"enabled": false, "reason": TEXT}, or what came of it: passes of the main model over the answer, drafts
/// offered and accepted in all, accepted a pass, and passes for each token that they settled, which is
/// 1 / (1 + mean_accepted).
Json draft_json(const DraftFlags& flags, const Model& model, const DraftStats& stats);

/// "[11 tokens, 95.4 a second; prompt 13, 227.1 a second; 4.00 of 5.00 drafts accepted a pass]" and a line
/// end; of the prompt only what was computed. Dim where the terminal has styles.
std::string speed_line(const Environment& env, const Generation& generation);

}  // namespace fathom
