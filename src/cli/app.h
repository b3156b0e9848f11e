// The whole command line: parsing, exit codes, where errors go.
#pragma once

#include <span>

#include "cli/command.h"

namespace fathom {

inline constexpr int exit_ok = 0;
inline constexpr int exit_failure = 1;
inline constexpr int exit_usage = 2;
inline constexpr int exit_interrupted = 130;  // 128 + SIGINT, as shells have it

/// Parses the arguments, runs the command they choose among `commands` and gives the exit code. Errors are
/// written to surroundings.err as "fathom: message".
int run_app(int argc, const char* const* argv, std::span<const AddCommand> commands,
            const Surroundings& surroundings);

}  // namespace fathom
