// The program: gathers what lies outside and hands it to the command line.

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

#include "cli/app.h"
#include "cli/commands.h"
#include "cli/signals.h"

namespace {

// A standard stream that is closed would become the next file that is opened: a message would be looked for
// in a checkpoint's bytes, and errors written to an output file. What is put in its place is there, but can
// be neither read nor written.
void occupy_standard_streams() {
  int fd = 0;
  while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/", O_PATH | O_CLOEXEC);
  if (fd > STDERR_FILENO) close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace fathom;
  occupy_standard_streams();
  install_signal_handlers();
  install_terminate_handler();
  const Environment env = read_environment([](const char* name) { return std::getenv(name); });
  Output out(STDOUT_FILENO, "standard output");
  Output err(STDERR_FILENO, "standard error");
  return run_app(argc, argv, all_commands, {env, out, err});
}
