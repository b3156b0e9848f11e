// fathom chat: a conversation at a terminal, or line by line from a pipe.

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "cli/answer_printer.h"
#include "cli/chat_prompt.h"
#include "cli/commands.h"
#include "cli/draft_report.h"
#include "cli/line_source.h"
#include "cli/loaded_model.h"
#include "cli/progress_display.h"
#include "cli/signals.h"
#include "engine/generator.h"
#include "text/utf8.h"

namespace fathom {
namespace {

constexpr std::string_view help =
    "/help            this list\n"
    "/image FILE      show the model an image with the next message; without FILE: take such images back\n"
    "/new, /clear     forget the conversation, with images not yet sent, and begin another\n"
    "/system TEXT     forget the conversation and begin another with this system message\n"
    "/think on|off    reason before the answers, or do not\n"
    "/quit            leave (so does Ctrl-D)\n"
    "Ctrl-C stops an answer and keeps what was said. A line that begins with // is sent with one /.\n";

struct Flags {
  ModelFlags model;
  AnswerFlags answer;
  ThinkingFlags thinking;
  DraftFlags draft;
  std::string system;
};

class Conversation {
 public:
  Conversation(const Flags& flags, const LoadedModel& loaded, const Surroundings& surroundings)
      : flags_(flags),
        loaded_(loaded),
        surroundings_(surroundings),
        images_(*loaded.model, surroundings, /*quiet=*/false),
        generator_(*loaded.language, prefill_rows) {
    begin(flags.system);
  }

  void begin(const std::string& system) {
    messages_ = Json::array();
    shown_.clear();
    images_.forget();
    if (!system.empty()) messages_.push_back({{"role", "system"}, {"content", system}});
  }
  void set_thinking(bool on) { flags_.thinking.thinking = on; }

  /// Goes with the next message. Gives the positions that it takes.
  Result<int64_t> show_image(const std::filesystem::path& file) {
    FATHOM_ASSIGN(auto image, images_.load(file));
    const int64_t tokens = image->tokens();
    shown_.push_back(std::move(image));
    return tokens;
  }

  void take_images_back() { shown_.clear(); }

  /// Says `text` with the images shown before it, shows the answer and remembers all. What cannot be answered
  /// is forgotten again, images included. Errors: those after which the chat cannot go on.
  Status say(const std::string& text) {
    messages_.push_back(user_message(shown_, text));
    shown_.clear();
    Result<AssistantMessage> answered = answer();
    if (!answered) {
      messages_.erase(messages_.size() - 1);
      return fail(std::move(answered).error());
    }
    // Calls cannot be answered here: what remains of the message is its text.
    answered->tool_calls.clear();
    if (answered->content.empty() && answered->reasoning_content.empty())
      messages_.erase(messages_.size() - 1);
    else
      messages_.push_back(to_json(*answered));
    return {};
  }

 private:
  Result<AssistantMessage> answer() {
    const Model& model = *loaded_.model;
    GenerateRequest request;
    FATHOM_ASSIGN(Prompt prompt, chat_prompt(images_, messages_, flags_.thinking));
    request.prompt = std::move(prompt.ids);
    request.images = std::move(prompt.images);
    const auto positions = static_cast<int64_t>(request.prompt.size());
    if (const int64_t most = model.config().max_seq_len; positions >= most)
      return fail(
          ErrorCode::invalid_argument,
          "with this message the conversation takes {} positions, the context has {}: /new begins another "
          "conversation, --context makes room for longer ones",
          positions, most);
    request.sampling = flags_.answer.sampling;
    request.stream = num_answers_++;  // every answer has draws of its own
    request.max_tokens = flags_.answer.max_tokens;
    request.stop = flags_.answer.stop;
    request.stop_ids = {static_cast<int32_t>(model.config().eos_token_id)};
    request.drafting = flags_.draft.settings;

    AnswerPrinter printer(surroundings_, thinking_mode(flags_.thinking));
    ProgressDisplay progress = progress_display(surroundings_, false);
    GenerateHooks hooks;
    hooks.prefill = [&](int64_t done, int64_t total) { progress.update(done, total); };
    hooks.text = [&](std::string_view piece) { return printer.push(piece); };
    hooks.cancelled = interrupted;
    TokenizerDecoder decoder(model.tokenizer(), /*skip_special=*/false);
    const auto generation = generator_.run(request, decoder, hooks);
    progress.clear();
    FATHOM_TRY(printer.finish());
    take_interrupt();
    if (!generation) return fail(generation.error());
    if (generation->reason == FinishReason::cancelled) FATHOM_TRY(remark("[stopped]\n"));
    if (generation->reason == FinishReason::max_tokens)
      FATHOM_TRY(remark(fmt::format("[cut after {} tokens (--max-tokens)]\n", request.max_tokens)));
    if (generation->reason == FinishReason::context_full)
      FATHOM_TRY(remark(fmt::format("[cut: the context of {} positions is full (--context)]\n",
                                    model.config().max_seq_len)));
    remark_on_drafting(surroundings_, generation->drafts);
    FATHOM_TRY(status_line(*generation));
    return printer.message();
  }

  // At a terminal: how long the answer was, how fast it came, and what drafting did for it.
  Status status_line(const Generation& generation) {
    const Environment& env = surroundings_.env;
    if (!env.stdin_terminal || !env.stdout_terminal) return {};
    return remark(speed_line(env, generation));
  }

  Status remark(std::string_view text) {
    FATHOM_TRY(surroundings_.out.write(text));
    return surroundings_.out.flush();
  }

  Flags flags_;
  const LoadedModel& loaded_;
  const Surroundings& surroundings_;
  PromptImages images_;
  std::vector<std::shared_ptr<const ImageEmbedding>> shown_;  // since the last message
  Generator generator_;
  Json messages_;
  uint32_t num_answers_ = 0;
};

enum class Next { go_on, leave };

std::string trimmed(const std::string& text) {
  constexpr std::string_view space = " \t\r";
  const size_t begin = text.find_first_not_of(space);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(space) - begin + 1);
}

class Chat {
 public:
  Chat(const Flags& flags, const LoadedModel& loaded, const Surroundings& surroundings)
      : surroundings_(surroundings), conversation_(flags, loaded, surroundings) {
    interactive_ = surroundings.env.stdin_terminal && surroundings.env.stdout_terminal;
    lines_ = interactive_ ? edited_lines(surroundings.env.history_file)
                          : plain_lines(STDIN_FILENO, "standard input");
  }

  Status run() {
    if (interactive_) FATHOM_TRY(show("Type a message, or /help.\n"));
    for (;;) {
      Result<std::optional<std::string>> line = lines_->next("> ");
      if (!line && line.error().code == ErrorCode::cancelled && interactive_) {
        FATHOM_TRY(show("\n"));
        continue;
      }
      if (!line) return fail(std::move(line).error());
      if (!*line) return interactive_ ? show("\n") : Status{};
      FATHOM_ASSIGN(const Next next, take(**line));
      if (next == Next::leave) return {};
    }
  }

 private:
  Result<Next> take(const std::string& line) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) return Next::go_on;
    if (line.starts_with("//")) return say(line.substr(1));
    if (!line.starts_with("/")) return say(line);
    const size_t space = line.find(' ');
    const std::string command = line.substr(0, space);
    const std::string argument = space == std::string::npos ? "" : trimmed(line.substr(space + 1));
    if (command == "/quit" || command == "/exit") return Next::leave;
    if (command == "/help") {
      FATHOM_TRY(show(help));
    } else if (command == "/new" || command == "/clear") {
      conversation_.begin("");
      FATHOM_TRY(confirm("a new conversation"));
    } else if (command == "/system") {
      conversation_.begin(argument);
      FATHOM_TRY(
          confirm(argument.empty() ? "a new conversation" : "a new conversation, with a system message"));
    } else if (command == "/image") {
      return show_image(argument);
    } else if (command == "/think" && (argument == "on" || argument == "off")) {
      conversation_.set_thinking(argument == "on");
      FATHOM_TRY(confirm(argument == "on" ? "reasoning on" : "reasoning off"));
    } else if (command == "/think") {
      FATHOM_TRY(complain(fmt::format("{}: expected /think on or /think off", line)));
    } else {
      FATHOM_TRY(complain(fmt::format("there is no {}; /help lists what there is", command)));
    }
    return Next::go_on;
  }

  Result<Next> show_image(const std::string& file) {
    if (file.empty()) {
      conversation_.take_images_back();
      return Next::go_on;
    }
    const Result<int64_t> tokens = conversation_.show_image(file);
    take_interrupt();
    if (!tokens)
      FATHOM_TRY(complain(tokens.error().message));
    else
      FATHOM_TRY(confirm(fmt::format("{}: {} tokens", without_controls(file), *tokens)));
    return Next::go_on;
  }

  Result<Next> say(const std::string& text) {
    const Status said = conversation_.say(text);
    if (said) return Next::go_on;
    // At a terminal a message that cannot be answered is no reason to lose the conversation.
    const bool fatal =
        !interactive_ || said.error().code == ErrorCode::io || said.error().code == ErrorCode::format;
    if (fatal) return fail(said.error());
    FATHOM_TRY(complain(said.error().message));
    return Next::go_on;
  }

  Status show(std::string_view text) {
    FATHOM_TRY(surroundings_.out.write(text));
    return surroundings_.out.flush();
  }
  // A command whose effect cannot be seen.
  Status confirm(std::string_view what) {
    return interactive_ ? show(fmt::format("[{}]\n", what)) : Status{};
  }
  Status complain(std::string_view message) {
    if (!interactive_) return fail(ErrorCode::invalid_argument, "{}", message);
    return show(fmt::format("fathom: {}\n", without_controls(message)));
  }

  const Surroundings& surroundings_;
  Conversation conversation_;
  std::unique_ptr<LineSource> lines_;
  bool interactive_ = false;
};

Status run(const Flags& flags, const Surroundings& surroundings) {
  FATHOM_ASSIGN(const LoadedModel loaded, load_model(flags.model, flags.draft.on(), surroundings));
  remark_on_drafting(surroundings, flags.draft, *loaded.model);
  return Chat(flags, loaded, surroundings).run();
}

}  // namespace

void add_chat(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("chat", "Talk with the model");
  command->footer(
      "At a terminal: line editing, history, /help for commands. From a pipe: each line is a message, "
      "answers go to standard output.");
  const auto flags = std::make_shared<Flags>();
  flags->model.add_to(*command);
  command->add_option("--system", flags->system, "A system message to begin with")->type_name("TEXT");
  flags->thinking.add_to(*command);
  flags->answer.add_to(*command);
  flags->draft.add_to(*command);
  command->callback([flags, &chosen] {
    flags->answer.check();
    flags->thinking.check();
    flags->draft.check();
    if (find_invalid_utf8(flags->system) != std::string::npos)
      throw CLI::ValidationError("--system", "expected UTF-8 text");
    chosen = [flags](const Surroundings& surroundings) { return run(*flags, surroundings); };
  });
}

}  // namespace fathom
