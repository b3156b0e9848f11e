#include "cli/environment.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace fathom {

Environment read_environment(const std::function<const char*(const char*)>& variable) {
  const auto value = [&](const char* name) -> std::string_view {
    const char* found = variable(name);
    return found ? found : "";
  };
  Environment env;
  env.stdin_terminal = isatty(STDIN_FILENO) == 1;
  env.stdout_terminal = isatty(STDOUT_FILENO) == 1;
  env.stderr_terminal = isatty(STDERR_FILENO) == 1;
  env.styled = env.stdout_terminal && value("NO_COLOR").empty() && value("TERM") != "dumb";

  winsize size{};
  if (env.stdout_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    env.columns = std::clamp<int>(size.ws_col, 60, 100);

  // Relative paths are to be ignored, says the XDG base directory specification.
  std::filesystem::path state = value("XDG_STATE_HOME");
  if (!state.is_absolute()) {
    const std::filesystem::path home = value("HOME");
    state = home.is_absolute() ? home / ".local/state" : std::filesystem::path();
  }
  if (!state.empty()) env.history_file = state / "fathom/history";
  return env;
}

}  // namespace fathom
