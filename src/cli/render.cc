// fathom render: conversations to prompts.

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/json_lines.h"
#include "text/chat_render.h"

namespace fathom {
namespace {

Result<Json> render(const Json& request, bool allow_special_text) {
  FATHOM_ASSIGN(ChatRequest chat, read_chat_request(request));
  chat.options.reject_special_text = !allow_special_text;
  FATHOM_ASSIGN(const RenderedPrompt prompt, render_chat(chat.messages, chat.options));
  return Json{{"prompt", prompt.text()}, {"images", prompt.images}};
}

}  // namespace

void add_render(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("render", "Turn conversations into prompts");
  command->footer(
      "Reads JSON lines and writes one for each:\n"
      "  {\"messages\": [...], \"thinking_mode\": \"chat\"|\"thinking\", \"reasoning_effort\": E,\n"
      "   \"drop_thinking\": B}  ->  {\"prompt\": T, \"images\": [...]}\n"
      "  anything wrong       ->  {\"error\": message}\n"
      "thinking_mode is thinking where it is missing; E is low, high (the default), max or 1 to 100; "
      "with drop_thinking (the default) reasoning before the last user turn is left out. Tools stand in "
      "a message:\n"
      "  {\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\", \"tools\": [...]},\n"
      "                {\"role\": \"user\", \"content\": \"Hi\"}], \"thinking_mode\": \"chat\"}\n"
      "Other fields are ignored. A prompt as text no longer tells who wrote what: given to tokenize, "
      "special text in a message becomes special tokens, which chat and generate never allow.");
  const auto allow = std::make_shared<bool>(false);
  command->add_flag("--allow-special-text", *allow,
                    "Take the image placeholder in messages as plain text instead of refusing it");
  command->callback([allow, &chosen] {
    chosen = [allow](const Surroundings& surroundings) {
      return answer_json_lines(surroundings, [&](const Json& request) { return render(request, *allow); });
    };
  });
}

}  // namespace fathom
