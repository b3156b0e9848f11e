// The display of prompt progress that fits where the program runs.
#pragma once

#include "cli/command.h"
#include "cli/progress.h"

namespace fathom {

/// On standard error: a bar on a terminal, lines elsewhere, nothing when `quiet`.
inline PrefillProgress prompt_progress(const Surroundings& surroundings, bool quiet) {
  auto style = surroundings.env.stderr_terminal ? PrefillProgress::Style::bar : PrefillProgress::Style::lines;
  if (quiet) style = PrefillProgress::Style::none;
  return PrefillProgress(style, [&err = surroundings.err](std::string_view text) {
    if (err.write(text)) (void)err.flush();
  });
}

}  // namespace fathom
