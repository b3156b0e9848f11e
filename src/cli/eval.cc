// fathom eval: prompts with known answers, greedily, and how many come out exact.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/cancel.h"
#include "base/file.h"
#include "cli/chat_prompt.h"
#include "cli/commands.h"
#include "cli/draft_report.h"
#include "cli/eval_case.h"
#include "cli/json_lines.h"
#include "cli/loaded_model.h"
#include "cli/progress_display.h"
#include "cli/signals.h"
#include "engine/generator.h"

namespace fathom {
namespace {

constexpr uint64_t max_file_bytes = uint64_t{1} << 30;

struct Flags {
  ModelFlags model;
  DraftFlags draft;
  std::filesystem::path file;
  bool json = false;
};

class Evaluation {
 public:
  Evaluation(const Flags& flags, const LoadedModel& loaded, const Surroundings& surroundings)
      : flags_(flags),
        model_(*loaded.model),
        language_(*loaded.language),
        images_(*loaded.model, surroundings, /*quiet=*/true),
        generator_(*loaded.language, prefill_rows) {}

  /// Errors name the file and the line.
  Result<EvalOutcome> run(const EvalCase& c) {
    auto outcome = answer(c);
    if (outcome || outcome.error().code == ErrorCode::cancelled) return outcome;
    return fail(outcome.error().code, "{}, line {}: {}", flags_.file.string(), c.line,
                outcome.error().message);
  }

 private:
  Result<EvalOutcome> answer(const EvalCase& c) {
    const Tokenizer& tokenizer = model_.tokenizer();
    FATHOM_TRY(check_rendering(c));
    GenerateRequest request;
    FATHOM_ASSIGN(Prompt prompt, make_prompt(c));
    request.prompt = std::move(prompt.ids);
    request.images = std::move(prompt.images);
    FATHOM_ASSIGN(const auto expected, tokenizer.encode(c.expected));
    request.sampling.temperature = 0;
    request.drafting = flags_.draft.settings;
    // Other tokens may spell the same text, so the text decides where a completion ends.
    request.max_tokens = static_cast<int64_t>(expected.size()) + 16;
    if (!c.is_completion) request.stop_ids = {static_cast<int32_t>(model_.config().eos_token_id)};
    GenerateHooks hooks;
    size_t length = 0;
    hooks.text = [&](std::string_view text) {
      length += text.size();
      return Status{};
    };
    hooks.cancelled = [&] { return interrupted() || (c.is_completion && length >= c.expected.size()); };
    TokenizerDecoder decoder(tokenizer, /*skip_special=*/false);
    FATHOM_ASSIGN(const Generation generation, generator_.run(request, decoder, hooks));
    FATHOM_TRY(check_cancelled(interrupted));
    EvalOutcome out;
    out.found = tokenizer.decode(generation.ids, /*skip_special=*/false);
    // A pass may bring several tokens, so a completion may be longer than what it is compared with.
    out.exact = c.is_completion ? out.found.starts_with(c.expected) : out.found == c.expected;
    out.drafts = generation.drafts;
    if (!out.exact) {
      FATHOM_ASSIGN(out.margin, margin(request, generation.ids, expected));
    }
    return out;
  }

  Result<Prompt> make_prompt(const EvalCase& c) {
    std::vector<std::shared_ptr<const ImageEmbedding>> images;
    if (!c.image.empty()) {
      FATHOM_ASSIGN(auto image, images_.load(flags_.file.parent_path() / c.image));
      images.push_back(std::move(image));
    }
    return images_.place(c.prompt, images);
  }

  // What this build's logits say about the first token that differs.
  Result<std::optional<double>> margin(const GenerateRequest& request, std::span<const int32_t> found,
                                       std::span<const int32_t> expected) {
    const auto [a, b] = std::mismatch(found.begin(), found.end(), expected.begin(), expected.end());
    if (a == found.end() || b == expected.end()) return std::nullopt;
    std::vector<int32_t> ids = request.prompt;
    ids.insert(ids.end(), found.begin(), a);
    FATHOM_ASSIGN(const auto sequence, language_.new_sequence());
    FATHOM_ASSIGN(const auto logits, sequence->extend(ids, 1, request.images));
    return std::optional<double>(double{logits[static_cast<size_t>(*a)]} -
                                 double{logits[static_cast<size_t>(*b)]});
  }

  // The file's prompt must be what this build makes of the messages; anything else would test another one.
  Status check_rendering(const EvalCase& c) const {
    if (!c.request) return {};
    FATHOM_ASSIGN(const ChatRequest request, read_chat_request(*c.request));
    FATHOM_ASSIGN(const RenderedPrompt prompt, render_chat(request.messages, request.options));
    if (prompt.text() == c.prompt) return {};
    return fail(ErrorCode::format, "the messages render to another text than the prompt");
  }

  const Flags& flags_;
  const Model& model_;
  LanguageModel& language_;
  PromptImages images_;
  Generator generator_;
};

Status run_all(const std::vector<EvalCase>& cases, Evaluation& evaluation, const LoadedModel& loaded,
               const Surroundings& surroundings, EvalTable& table) {
  for (const EvalCase& c : cases) {
    if (!c.image.empty() && !loaded.model->tensors().vision_available()) {
      table.skip(c, "the model takes no images");
      continue;
    }
    Result<EvalOutcome> outcome = evaluation.run(c);
    if (!outcome) {
      FATHOM_TRY(show_count(surroundings, ""));
      return fail(std::move(outcome).error());
    }
    table.add(c, std::move(outcome).value());
    FATHOM_TRY(show_count(surroundings, fmt::format("{} of {}", c.line, cases.size())));
  }
  return show_count(surroundings, "");
}

Status run(const Flags& flags, const Surroundings& surroundings) {
  FATHOM_ASSIGN(const std::string text, read_file(flags.file, max_file_bytes));
  FATHOM_ASSIGN(const std::vector<EvalCase> cases, parse_eval(text, flags.file.string()));
  FATHOM_ASSIGN(const LoadedModel loaded, load_model(flags.model, flags.draft.on(), surroundings));
  remark_on_drafting(surroundings, flags.draft, *loaded.model);
  Evaluation evaluation(flags, loaded, surroundings);
  EvalTable table;
  const auto start = std::chrono::steady_clock::now();
  const Status all = run_all(cases, evaluation, loaded, surroundings, table);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  // What was found before an error is not lost.
  const std::string shown = flags.json ? json_line(table.to_json(seconds)) : table.to_text(seconds);
  FATHOM_TRY(surroundings.out.write(surroundings.env.stdout_terminal ? without_controls(shown) : shown));
  FATHOM_TRY(surroundings.out.flush());
  remark_on_drafting(surroundings, table.drafts());
  FATHOM_TRY(all);
  // Another order of summation can turn a discrete choice deep in the model, and with it a clear answer (spec
  // 1, Exactness): the fast path is judged by how many answers it gets right.
  const int64_t tolerated = flags.model.exact ? 0 : table.num_run() / 100;
  if (table.num_regressions() <= tolerated) return {};
  return fail(ErrorCode::format, "{} of the lines that the reference has exact are not",
              table.num_regressions());
}

}  // namespace

void add_eval(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand("eval", "Count exact answers to prompts with known ones");
  command->footer(
      "FILE has JSON lines as in models/demo/eval.jsonl: task, prompt, expected; messages, which must "
      "render to the prompt; image, a file beside FILE. Fails when a line that the reference computation "
      "has exact is not, unless the two choices differ by less than 0.05 in logit; without --exact when "
      "more than one in a hundred are such.");
  const auto flags = std::make_shared<Flags>();
  flags->model.add_to(*command);
  flags->draft.add_to(*command);
  command->add_option("file", flags->file, "The prompts")->required()->type_name("FILE");
  command->add_flag("--json", flags->json, "Write one JSON object");
  command->callback([flags, &chosen] {
    flags->draft.check();
    chosen = [flags](const Surroundings& surroundings) { return run(*flags, surroundings); };
  });
}

}  // namespace fathom
