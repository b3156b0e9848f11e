// The program: gathers what lies outside and hands it to the command line.

#include <unistd.h>

#include <cstdlib>

#include "cli/app.h"
#include "cli/commands.h"
#include "cli/signals.h"

int main(int argc, char** argv) {
  using namespace fathom;
  install_signal_handlers();
  const Environment env = read_environment([](const char* name) { return std::getenv(name); });
  Output out(STDOUT_FILENO, "standard output");
  Output err(STDERR_FILENO, "standard error");
  return run_app(argc, argv, all_commands, {env, out, err});
}
