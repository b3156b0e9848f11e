// What a command is: flags that it adds to the parser, and an action to run when it was chosen.
#pragma once

#include <functional>

#include "base/result.h"
#include "cli/environment.h"
#include "cli/output.h"

namespace CLI {
class App;
}

namespace fathom {

/// What an action may use of the world.
struct Surroundings {
  const Environment& env;
  Output& out;  // flushed by the caller after the action
  Output& err;  // for progress and remarks; errors are returned
};

using Action = std::function<Status(const Surroundings&)>;

/// Adds a subcommand to `app`. When the command line chooses it and its flags are right, `chosen` is set.
using AddCommand = void (*)(CLI::App& app, Action& chosen);

}  // namespace fathom
