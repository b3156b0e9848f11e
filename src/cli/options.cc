#include "cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>
#include <random>

#include "base/size_text.h"
#include "base/threads.h"
#include "model/sequence.h"
#include "text/utf8.h"

namespace fathom {
namespace {

constexpr int max_threads = 1024;
constexpr int64_t max_drafts = Sequence::max_rewind;  // more could not be taken back

uint64_t random_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

// Best first: "amx, avx512, avx2, portable".
std::string isa_names(std::span<const Isa> isas) {
  std::string out;
  for (size_t i = isas.size(); i-- > 0;) {
    out += isa_name(isas[i]);
    if (i > 0) out += ", ";
  }
  return out;
}

constexpr int64_t max_positions = std::numeric_limits<int32_t>::max();

// "8192", "128K", "1M": powers of 1024, as contexts are counted.
std::optional<int64_t> parse_positions(std::string_view text) {
  int64_t unit = 1;
  if (text.ends_with('K') || text.ends_with('k')) unit = 1 << 10;
  if (text.ends_with('M') || text.ends_with('m')) unit = 1 << 20;
  if (unit > 1) text.remove_suffix(1);
  const auto number = parse_whole<int64_t>(text);
  if (!number || *number < 1 || *number > max_positions / unit) return std::nullopt;
  return *number * unit;
}

}  // namespace

CLI::Validator number_check(double least, double most) {
  const std::string expected = least > 0 ? fmt::format("a number from {} to {}", least, most)
                                         : fmt::format("a number above 0, at most {}", most);
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        const auto number = parse_whole<double>(text);
        // Comparisons that nan fails.
        if (number && *number > 0 && *number >= least && *number <= most) return {};
        return fmt::format("expected {}, found '{}'", expected, text);
      },
      "");
}

Result<Isa> choose_isa(std::string_view name, std::span<const Isa> available) {
  const std::optional<Isa> isa = isa_of_name(name);
  if (!isa)
    return fail(ErrorCode::invalid_argument, "expected one of {}, found '{}'", isa_names(all_isas), name);
  if (std::find(available.begin(), available.end(), *isa) == available.end())
    return fail(ErrorCode::invalid_argument, "this processor has no {}; it has {}", name,
                isa_names(available));
  return *isa;
}

void add_memory_flag(CLI::App& command, std::optional<int64_t>& memory, bool& mapped) {
  command
      .add_option_function<std::string>(
          "--memory",
          [&memory, &mapped](const std::string& text) {
            if (text == "mapped") {
              mapped = true;
              return;
            }
            const auto bytes = parse_size(text);
            if (!bytes) throw CLI::ValidationError("--memory", bytes.error().message);
            memory = *bytes;
          },
          "Memory to use in all, such as 16G; experts that do not fit are read from disk as they are needed. "
          "Default: what the machine and its control groups leave; or 'mapped': weights stay in mapped files "
          "and the kernel decides")
      ->type_name("SIZE");
}

void add_context_flag(CLI::App& command, int64_t& context) {
  command
      .add_option_function<std::string>(
          "--context",
          [&context](const std::string& text) {
            const std::optional<int64_t> positions = parse_positions(text);
            if (!positions)
              throw CLI::ValidationError(
                  "--context", fmt::format("expected 1 to {} positions, such as 8192 or 128K, found '{}'",
                                           max_positions, text));
            context = *positions;
          },
          "The most positions that prompt and answer may take together, such as 8192 or 128K; memory is "
          "planned "
          "for them. Default: the model's context")
      ->type_name("N");
}

void ModelFlags::add_to(CLI::App& command) {
  command.add_option("--model", directory, "Model directory, as published")->required()->type_name("DIR");
  BackendFlags::add_to(command);
  add_memory_flag(command, memory, mapped);
  add_context_flag(command, context);
}

void BackendFlags::add_to(CLI::App& command) {
  threads = std::min(available_processors(), max_threads);
  command.add_option("--threads", threads, "Threads to compute with")
      ->check(CLI::Range(1, max_threads))
      ->capture_default_str();
  auto* exact_flag = command.add_flag(
      "--exact", exact, "Compute with f64 sums, rounding for rounding as the specification says; slow");
  command
      .add_option_function<std::string>(
          "--isa",
          [this](const std::string& name) {
            const Result<Isa> chosen = choose_isa(name, available_isas());
            if (!chosen) throw CLI::ValidationError("--isa", chosen.error().message);
            isa = *chosen;
          },
          fmt::format("Instructions to use, one of {}; this processor has {}. Default: the best that it has",
                      isa_names(all_isas), isa_names(available_isas())))
      ->type_name("NAME")
      ->excludes(exact_flag);
}

void AnswerFlags::add_to(CLI::App& command) {
  sampling.top_p = 0.95;
  const std::string group = "Sampling";
  const auto add = [&](const char* name, auto& value, const char* help) {
    return command.add_option(name, value, help)->group(group)->capture_default_str();
  };
  add("--temperature", sampling.temperature, "Divides the logits; 0: always the most probable token");
  add("--top-k", sampling.top_k, "Draw from the K most probable tokens; 0: all");
  add("--top-p", sampling.top_p, "Draw from the most probable tokens that together reach P; 1: all");
  add("--min-p", sampling.min_p, "Leave out tokens less probable than P times the most probable");
  add("--repetition-penalty", sampling.repetition_penalty,
      "Scales down logits of tokens in prompt and answer; 1: off");
  add("--presence-penalty", sampling.presence_penalty, "Subtracted for tokens in the answer, -2..2");
  add("--frequency-penalty", sampling.frequency_penalty, "Subtracted for each use in the answer, -2..2");
  command.add_option("--logit-bias", bias_, "Adds VALUE (-100..100) to the logit of token ID; repeatable")
      ->group(group)
      ->type_name("ID=VALUE")
      ->type_size(1)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  command.add_option("--seed", seed_, "Makes the draws repeat; default: another one each time")
      ->group(group)
      ->type_name("N");
  command.add_option("--stop", stop, "Ends the answer before this text; repeatable")
      ->type_name("TEXT")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  command.add_option("--max-tokens", max_tokens, "Ends the answer after so many tokens")
      ->check(CLI::Range(int64_t{1}, int64_t{std::numeric_limits<int32_t>::max()}))
      ->capture_default_str();
}

void AnswerFlags::check() {
  for (const std::string& entry : bias_) {
    const size_t equals = std::min(entry.find('='), entry.size());
    const auto id = parse_whole<int32_t>(std::string_view(entry).substr(0, equals));
    const auto value = parse_whole<float>(std::string_view(entry).substr(std::min(equals + 1, entry.size())));
    if (!id || !value)
      throw CLI::ValidationError("--logit-bias", fmt::format("expected ID=VALUE, found '{}'", entry));
    sampling.logit_bias[*id] = *value;
  }
  // As text, because the parser's own conversion would take -1 for the largest number.
  const auto seed = seed_ ? parse_whole<uint64_t>(*seed_) : random_seed();
  if (!seed)
    throw CLI::ValidationError("--seed",
                               fmt::format("expected a whole number below 2^64, found '{}'", *seed_));
  sampling.seed = *seed;
  // The vocabulary's size is not known yet; ids that are too large are found when it is.
  if (const Status status = sampling.validate(std::numeric_limits<int32_t>::max()); !status)
    throw CLI::ValidationError(status.error().message);
  for (const std::string& text : stop)
    if (text.empty()) throw CLI::ValidationError("--stop", "expected some text, found none");
  for (const std::string& text : stop)
    if (find_invalid_utf8(text) != std::string::npos)
      throw CLI::ValidationError("--stop", "expected UTF-8 text");
}

void DraftFlags::add_to(CLI::App& command) {
  command
      .add_option(
          "--draft", text_,
          fmt::format("Draft tokens with the checkpoint's draft stages: on (as many as will pay), off, or N "
                      "(1 to {}, at most a block of the stages) at a time. Changes the speed of an answer, "
                      "never the answer",
                      max_drafts))
      ->type_name("on|off|N")
      ->capture_default_str();
}

void DraftFlags::check() {
  if (text_ == "on") {
    settings = {.max_drafts = max_drafts, .adaptive = true};
  } else if (text_ == "off") {
    settings = {};
  } else {
    const auto number = parse_whole<int64_t>(text_);
    if (!number || *number < 1 || *number > max_drafts)
      throw CLI::ValidationError("--draft",
                                 fmt::format("expected on, off or 1 to {}, found '{}'", max_drafts, text_));
    settings = {.max_drafts = *number, .adaptive = false};
  }
}

void ThinkingFlags::add_to(CLI::App& command) {
  command_ = &command;
  command.add_option("--thinking", thinking_text_, "Reason before the answer")
      ->type_name("on|off")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  command.add_option("--effort", effort_text_, "How much to reason: low, high, max or 1..100")
      ->type_name("N|low|high|max")
      ->capture_default_str();
}

void ThinkingFlags::check() {
  thinking = thinking_text_ == "on";
  given = command_->count("--thinking") + command_->count("--effort") > 0;
  if (effort_text_ == "low") {
    effort = 50;
  } else if (effort_text_ == "high") {
    effort = 75;
  } else if (effort_text_ == "max") {
    effort = 100;
  } else {
    const auto number = parse_whole<int>(effort_text_);
    if (!number || *number < 1 || *number > 100)
      throw CLI::ValidationError(
          "--effort", fmt::format("expected low, high, max or 1 to 100, found '{}'", effort_text_));
    effort = *number;
  }
}

}  // namespace fathom
