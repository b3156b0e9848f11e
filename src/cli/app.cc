#include "cli/app.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "cli/help_text.h"
#include "cli/remark.h"
#include "cli/suggestion.h"

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
    // The same, as other engines spell it.
    {"server", "this version has no server"},
    {"-ngl", "this version runs on the CPU only"},
    {"--gpu-layers", "this version runs on the CPU only"},
    {"--n-gpu-layers", "this version runs on the CPU only"},
    {"--tensor-parallel-size", "this version runs on the CPU only"},
};

// What people will try that has its place in the design but is not built: say so instead of "not expected".
std::string missing_feature(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = std::string_view(argv[i]).substr(0, std::string_view(argv[i]).find('='));
    for (const NotYet& feature : not_yet)
      if (word == feature.word && (i == 1 || word.starts_with('-')))
        return fmt::format("{}: not there yet: {}", feature.word, feature.what);
  }
  return {};
}

std::string usage_hint(const CLI::App& app) {
  std::string command = "fathom";
  for (const CLI::App* sub : app.get_subcommands()) command += " " + sub->get_name();
  return fmt::format("run '{} --help' for its usage", command);
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// What is wrong with the command line. The parser misses a command or a flag before it looks at words that it
// does not know, which are most often the reason.
std::string wrong_usage(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> commands = app.get_subcommands();
  if (const std::vector<std::string> before = app.remaining(); !commands.empty() && !before.empty()) {
    const std::string& word = before.front();
    return fmt::format("'{}' stands before the command: expected 'fathom {} {}'", word,
                       commands.front()->get_name(), word);
  }
  const CLI::App& chosen = commands.empty() ? app : *commands.front();
  const std::vector<std::string> unknown = chosen.remaining();
  if (!unknown.empty()) {
    const std::string meant = suggestion(unknown.front(), names_of(chosen));
    return fmt::format("there is no '{}'{}", unknown.front(),
                       meant.empty() ? "" : fmt::format(" (perhaps {})", meant));
  }
  return commands.empty() ? "expected a command, such as chat" : error.what();
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
  app.formatter(help_formatter(surroundings.env.columns));
  Action chosen;
  for (const AddCommand add : commands) add(app, chosen);
  for (CLI::App* command : app.get_subcommands({})) command->group("Commands");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return finish(surroundings, surroundings.out.write(app.help()));
  } catch (const CLI::CallForVersion& e) {
    return finish(surroundings, surroundings.out.write(version));
  } catch (const CLI::ParseError& e) {
    if (const std::string missing = missing_feature(argc, argv); !missing.empty()) {
      remark(surroundings, missing);
      return exit_usage;
    }
    remark(surroundings, fmt::format("{}; {}", wrong_usage(app, e), usage_hint(app)));
    return exit_usage;
  }
  return finish(surroundings, run_action(chosen, surroundings));
}

}  // namespace fathom
