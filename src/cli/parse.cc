// fathom parse: completions to messages.

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/json_lines.h"
#include "text/completion_parse.h"

namespace fathom {
namespace {

Result<Json> parse(const Json& request) {
  const auto completion = request.find("completion");
  if (completion == request.end() || !completion->is_string())
    return fail(ErrorCode::invalid_argument, "completion: expected a string");
  ThinkingMode mode = ThinkingMode::thinking;
  if (const auto given = request.find("thinking_mode"); given != request.end()) {
    if (*given == "chat")
      mode = ThinkingMode::chat;
    else if (*given != "thinking")
      return fail(ErrorCode::invalid_argument, "thinking_mode: expected \"chat\" or \"thinking\"");
  }
  FATHOM_ASSIGN(const AssistantMessage message,
                parse_completion(completion->get_ref<const std::string&>(), mode));
  return Json{{"message", to_json(message)}};
}

}  // namespace

void add_parse(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("parse", "Turn completions into messages");
  command->footer(
      "Reads JSON lines and writes one for each:\n"
      "  {\"completion\": T, \"thinking_mode\": \"chat\"|\"thinking\"}  ->  {\"message\": {...}}\n"
      "  anything wrong                                       ->  {\"error\": message}\n"
      "A completion is whole: it ends with the end-of-sentence token's text. thinking_mode is thinking "
      "where it is missing. For example:\n"
      "  {\"completion\": \"Red.<｜end▁of▁sentence｜>\", \"thinking_mode\": \"chat\"}\n"
      "A line that is wrong does not end the run: the exit code is 0.");
  command->callback([&chosen] {
    chosen = [](const Surroundings& surroundings) { return answer_json_lines(surroundings, parse); };
  });
}

}  // namespace fathom
