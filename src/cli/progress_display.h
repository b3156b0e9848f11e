// The display of progress that fits where the program runs.
#pragma once

#include "cli/command.h"
#include "cli/progress.h"

namespace fathom {

/// On standard error: a bar on a terminal, lines elsewhere, nothing when `quiet`. Of a prompt's tokens, or of
/// what else `words` says.
inline ProgressDisplay progress_display(const Surroundings& surroundings, bool quiet,
                                        ProgressWords words = {}) {
  auto style = surroundings.env.stderr_terminal ? ProgressDisplay::Style::bar : ProgressDisplay::Style::lines;
  if (quiet) style = ProgressDisplay::Style::none;
  const auto write = [&err = surroundings.err](std::string_view text) {
    if (err.write(text)) (void)err.flush();
  };
  return ProgressDisplay(style, write, std::move(words));
}

/// On a terminal, replaces the line of standard error that an earlier call left; an empty text removes it.
inline Status show_count(const Surroundings& surroundings, std::string_view text) {
  if (!surroundings.env.stderr_terminal) return {};
  FATHOM_TRY(surroundings.err.write("\r\x1b[K"));
  FATHOM_TRY(surroundings.err.write(text));
  return surroundings.err.flush();
}

}  // namespace fathom
