// What the process finds around it: terminals, colours, where state is kept. Read once, by main.
#pragma once

#include <filesystem>
#include <functional>

namespace fathom {

struct Environment {
  bool stdin_terminal = false;
  bool stdout_terminal = false;
  bool stderr_terminal = false;
  bool styled = false;                 // stdout may have colours and dimming
  int columns = 80;                    // of lines that are meant to be read: the terminal's, 60 to 100
  std::filesystem::path history_file;  // empty: nowhere to keep it
};

/// `variable` is getenv or its like: nullptr for an unset variable. Styling respects NO_COLOR and TERM=dumb;
/// the history file lies in XDG_STATE_HOME, or in HOME/.local/state.
Environment read_environment(const std::function<const char*(const char*)>& variable);

}  // namespace fathom
