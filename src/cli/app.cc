#include "cli/app.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <new>
#include <string>

#include "cli/remark.h"

namespace fathom {
namespace {

constexpr std::string_view description =
    "Fathom runs DeepSeek-V4.1 models from the published checkpoint as it is.";
constexpr std::string_view version = "fathom " FATHOM_VERSION "\n";

int finish(const Surroundings& surroundings, Status status) {
  const Status flushed = surroundings.out.flush();
  if (status && !flushed) status = flushed;
  if (status) return exit_ok;
  remark(surroundings, status.error().message);
  return status.error().code == ErrorCode::cancelled ? exit_interrupted : exit_failure;
}

struct NotYet {
  std::string_view word;  // a command or a flag
  std::string_view what;
};
constexpr NotYet not_yet[] = {
    {"serve", "this version has no server"},
    {"--device", "this version runs on the CPU only"},
    {"--devices", "this version runs on the CPU only"},
};

// What people will try that has its place in the design but is not built: say so instead of "not expected".
std::string missing_feature(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = std::string_view(argv[i]).substr(0, std::string_view(argv[i]).find('='));
    for (const NotYet& feature : not_yet)
      if (word == feature.word && (i == 1 || word.starts_with("--")))
        return fmt::format("{}: not there yet: {}", feature.word, feature.what);
  }
  return {};
}

std::string usage_hint(const CLI::App& app) {
  std::string command = "fathom";
  for (const CLI::App* sub : app.get_subcommands()) command += " " + sub->get_name();
  return fmt::format("run '{} --help' for its usage", command);
}

// No exception leaves a command: libraries may throw where memory runs out.
Status run_action(const Action& action, const Surroundings& surroundings) {
  try {
    return action(surroundings);
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "out of memory");
  } catch (const std::exception& e) {
    return fail(ErrorCode::io, "{}", e.what());
  }
}

}  // namespace

int run_app(int argc, const char* const* argv, std::span<const AddCommand> commands,
            const Surroundings& surroundings) {
  CLI::App app{std::string(description), "fathom"};
  app.set_version_flag("--version", std::string(version), "Print the version and exit");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  Action chosen;
  for (const AddCommand add : commands) add(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return finish(surroundings, surroundings.out.write(app.help()));
  } catch (const CLI::CallForVersion& e) {
    return finish(surroundings, surroundings.out.write(version));
  } catch (const CLI::ParseError& e) {
    // The parser misses a command before it looks at the words it does not know.
    const bool unknown = app.get_subcommands().empty() && app.remaining_size() > 0;
    if (const std::string missing = missing_feature(argc, argv); !missing.empty()) {
      remark(surroundings, missing);
      return exit_usage;
    }
    const std::string message = unknown ? fmt::format("there is no '{}'", app.remaining().front()) : e.what();
    remark(surroundings, fmt::format("{}; {}", message, usage_hint(app)));
    return exit_usage;
  }
  return finish(surroundings, run_action(chosen, surroundings));
}

}  // namespace fathom
