// fathom generate: one prompt, one answer.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/file.h"
#include "cli/answer_printer.h"
#include "cli/chat_prompt.h"
#include "cli/commands.h"
#include "cli/draft_report.h"
#include "cli/json_lines.h"
#include "cli/line_source.h"
#include "cli/loaded_model.h"
#include "cli/memory_report.h"
#include "cli/progress_display.h"
#include "cli/remark.h"
#include "cli/signals.h"
#include "engine/generator.h"

namespace fathom {
namespace {

constexpr uint64_t max_prompt_bytes = uint64_t{1} << 28;

struct Flags {
  ModelFlags model;
  AnswerFlags answer;
  ThinkingFlags thinking;
  DraftFlags draft;
  std::optional<std::string> prompt;
  std::optional<std::filesystem::path> prompt_file;
  std::string standard_input;  // "-"
  std::vector<std::filesystem::path> images;
  bool chat = false;
  bool json = false;

  void check() {
    answer.check();
    thinking.check();
    draft.check();
    if (!standard_input.empty() && standard_input != "-")
      throw CLI::ValidationError("prompt",
                                 "expected --prompt, --prompt-file or -, found '" + standard_input + "'");
    if (prompt.has_value() + prompt_file.has_value() + !standard_input.empty() != 1)
      throw CLI::ValidationError("prompt", "expected exactly one of --prompt, --prompt-file and -");
    for (const std::filesystem::path& image : images)
      if (image.empty()) throw CLI::ValidationError("--image", "expected a file's name, found nothing");
    if (thinking.given && !chat) throw CLI::ValidationError("--thinking, --effort", "they need --chat");
  }
};

Result<std::string> read_prompt(const Flags& flags, const Surroundings& surroundings) {
  if (flags.prompt) return *flags.prompt;
  std::string text;
  if (flags.prompt_file) {
    FATHOM_ASSIGN(text, read_file(*flags.prompt_file, max_prompt_bytes));
  } else {
    if (surroundings.env.stdin_terminal)
      remark(surroundings, "reading the text from this terminal; Ctrl-D ends it");
    FATHOM_ASSIGN(text, read_standard_input(max_prompt_bytes));
  }
  // A message ends without the line end that editors and echo add; a text to continue is taken as it is.
  if (flags.chat && text.ends_with('\n')) text.pop_back();
  return text;
}

Result<Prompt> make_prompt(const Flags& flags, const std::string& text, PromptImages& images) {
  std::vector<std::shared_ptr<const ImageEmbedding>> spans;
  for (const std::filesystem::path& file : flags.images) {
    FATHOM_ASSIGN(auto image, images.load(file));
    spans.push_back(std::move(image));
  }
  if (flags.chat) return chat_prompt(images, Json::array({user_message(spans, text)}), flags.thinking);
  return images.place(text, spans);
}

Json report(const Flags& flags, const Model& model, const GenerateRequest& request,
            const Generation& generation) {
  Json out;
  out["text"] = generation.text;
  if (flags.chat) {
    CompletionStream stream(thinking_mode(flags.thinking));
    AssistantMessage message;
    for (const CompletionEvent& event : stream.push(generation.text)) apply(event, message);
    for (const CompletionEvent& event : stream.finish()) apply(event, message);
    out["message"] = to_json(message);
  }
  out["ids"] = generation.ids;
  out["finish_reason"] = finish_reason_name(generation.reason);
  out["seed"] = flags.answer.sampling.seed;
  out["usage"] = {{"prompt_tokens", generation.prompt_tokens}, {"completion_tokens", generation.ids.size()}};
  if (!request.images.empty()) {
    out["images"] = Json::array();
    for (const ImagePlacement& placed : request.images)
      out["images"].push_back({{"first_position", placed.first_position},
                               {"tokens", placed.image->tokens()},
                               {"identity", placed.image->identity.to_hex()}});
  }
  out["draft"] = draft_json(flags.draft, model, generation.drafts);
  if (model.memory() != nullptr) out["memory"] = memory_json(*model.memory());
  out["seconds"] = {{"prompt", generation.prefill_seconds}, {"answer", generation.decode_seconds}};
  return out;
}

// For someone who watches: at a terminal, apart from the answer.
void remark_on_speed(const Surroundings& surroundings, const Generation& generation) {
  const Environment& env = surroundings.env;
  if (!env.stdout_terminal || !env.stderr_terminal) return;
  if (surroundings.err.write(speed_line(env, generation))) (void)surroundings.err.flush();
}

// Shows a continued text as it comes, and ends its last line.
class TextPrinter {
 public:
  explicit TextPrinter(const Surroundings& surroundings) : surroundings_(surroundings) {}
  Status push(std::string_view text) {
    at_line_start_ = text.ends_with('\n');
    FATHOM_TRY(surroundings_.out.write(surroundings_.env.stdout_terminal ? without_controls(text)
                                                                         : std::string(text)));
    return surroundings_.out.flush();
  }
  Status finish() {
    if (!at_line_start_) FATHOM_TRY(surroundings_.out.write("\n"));
    return surroundings_.out.flush();
  }

 private:
  const Surroundings& surroundings_;
  bool at_line_start_ = true;
};

Status run(const Flags& flags, const Surroundings& surroundings) {
  FATHOM_ASSIGN(const std::string text, read_prompt(flags, surroundings));
  FATHOM_ASSIGN(const LoadedModel loaded, load_model(flags.model, flags.draft.on(), surroundings));
  const Model& model = *loaded.model;
  remark_on_drafting(surroundings, flags.draft, model);
  PromptImages images(model, surroundings, flags.json);
  FATHOM_ASSIGN(Prompt prompt, make_prompt(flags, text, images));
  GenerateRequest request;
  request.prompt = std::move(prompt.ids);
  request.images = std::move(prompt.images);
  request.sampling = flags.answer.sampling;
  request.max_tokens = flags.answer.max_tokens;
  request.stop = flags.answer.stop;
  request.stop_ids = {static_cast<int32_t>(model.config().eos_token_id)};
  request.drafting = flags.draft.settings;

  AnswerPrinter answer(surroundings, thinking_mode(flags.thinking));
  TextPrinter plain(surroundings);
  ProgressDisplay progress = progress_display(surroundings, flags.json);
  GenerateHooks hooks;
  hooks.prefill = [&](int64_t done, int64_t total) { progress.update(done, total); };
  hooks.cancelled = interrupted;
  if (!flags.json)
    hooks.text = [&](std::string_view piece) { return flags.chat ? answer.push(piece) : plain.push(piece); };

  Generator generator(*loaded.language, prefill_rows);
  // The chat format's marks are read by the printer, or by whoever reads the JSON.
  TokenizerDecoder decoder(model.tokenizer(), /*skip_special=*/false);
  FATHOM_ASSIGN(const Generation generation, generator.run(request, decoder, hooks));
  progress.clear();
  if (flags.json) {
    FATHOM_TRY(surroundings.out.write(json_line(report(flags, model, request, generation))));
  } else {
    FATHOM_TRY(flags.chat ? answer.finish() : plain.finish());
  }
  remark_on_drafting(surroundings, generation.drafts);
  if (!flags.json) remark_on_speed(surroundings, generation);
  if (generation.reason == FinishReason::context_full)
    remark(surroundings,
           fmt::format("the answer ends because the context of {} positions is full (--context)",
                       model.config().max_seq_len));
  if (generation.reason == FinishReason::cancelled) return fail(ErrorCode::cancelled, "interrupted");
  return {};
}

}  // namespace

void add_generate(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("generate", "Continue a text, or answer a message with --chat");
  const auto flags = std::make_shared<Flags>();
  flags->model.add_to(*command);
  command
      ->add_option("--prompt", flags->prompt,
                   "The text; without --chat, special tokens written in it are special tokens")
      ->type_name("TEXT");
  command->add_option("--prompt-file", flags->prompt_file, "A file with the text")->type_name("FILE");
  command->add_option("input", flags->standard_input, "Read the text from standard input: -")->type_name("");
  command->add_flag("--chat", flags->chat, "The text is a user's message; answer it");
  command
      ->add_option("--image", flags->images,
                   "An image before the text (PNG, JPEG, WebP, GIF); repeatable. Without --chat the text may "
                   "give each image its place: <｜deepseek_image｜>")
      ->type_name("FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  flags->thinking.add_to(*command);
  flags->answer.add_to(*command);
  flags->draft.add_to(*command);
  command->add_flag("--json", flags->json, "Write one JSON object when the answer is done");
  command->callback([flags, &chosen] {
    flags->check();
    chosen = [flags](const Surroundings& surroundings) { return run(*flags, surroundings); };
  });
}

}  // namespace fathom
