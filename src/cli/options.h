// Flags that several commands share, with their checks. A wrong value is a usage error.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/fast/isa.h"
#include "base/result.h"
#include "engine/drafting.h"
#include "sampling/params.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace fathom {

/// A number that takes up the whole of `text`; nothing when it does not, or does not fit T.
template <class T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Numbers from `least` to `most` with commas between them, at least one: the parser's own lists skip empty
/// entries. Errors: invalid_argument, "expected token ids with commas between them, found 'x'".
template <class T>
Result<std::vector<T>> parse_list(std::string_view text, T least, T most, std::string_view what) {
  std::vector<T> numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view entry = text.substr(begin, end - begin);
    const auto number = parse_whole<T>(entry);
    if (!number || *number < least || *number > most)
      return fail(ErrorCode::invalid_argument, "expected {} with commas between them, found '{}'", what,
                  entry);
    numbers.push_back(*number);
    begin = end + 1;
  }
  return numbers;
}

/// What an option with a number takes: all of the text is one, above 0 or at least `least`, at most `most`.
/// The parser's own ranges let "nan" pass.
CLI::Validator number_check(double least, double most);

/// The instructions that --isa names among those that the processor has. Errors: invalid_argument.
Result<Isa> choose_isa(std::string_view name, std::span<const Isa> available);

/// --memory SIZE or mapped.
void add_memory_flag(CLI::App& command, std::optional<int64_t>& memory, bool& mapped);

/// --context N: of a sequence, 0 where it is not given.
void add_context_flag(CLI::App& command, int64_t& context);

/// What computes.
struct BackendFlags {
  int threads = 1;
  bool exact = false;
  Isa isa = best_isa();  // of the fast path

  /// --threads (default: as many as this process may use), --exact and --isa.
  void add_to(CLI::App& command);
};

struct ModelFlags : BackendFlags {
  std::filesystem::path directory;
  std::optional<int64_t> memory;  // bytes; nothing: what the machine leaves
  bool mapped = false;            // weights stay in mapped files instead
  int64_t context = 0;            // most positions of a sequence; 0: the model's

  /// --model, those of BackendFlags, --memory and --context.
  void add_to(CLI::App& command);
};

/// How an answer is drawn and where it ends.
struct AnswerFlags {
  SamplingParams sampling;  // the seed included, after check()
  std::vector<std::string> stop;
  int64_t max_tokens = 4096;

  void add_to(CLI::App& command);
  /// After parsing: what one flag's own check cannot see, and a seed where none was given. Throws
  /// CLI::ParseError.
  void check();

 private:
  std::optional<std::string> seed_;
  std::vector<std::string> bias_;  // "ID=VALUE"
};

/// --draft on|off|N of commands that write answers.
struct DraftFlags {
  DraftSettings settings;  // after check()

  bool on() const { return settings.max_drafts > 0; }
  void add_to(CLI::App& command);
  void check();

 private:
  std::string text_ = "on";
};

/// --thinking on|off and --effort N|low|high|max of chat prompts.
struct ThinkingFlags {
  bool thinking = true;
  int effort = 75;     // 1..100, after check()
  bool given = false;  // whether either flag was, after check()

  void add_to(CLI::App& command);
  void check();

 private:
  std::string thinking_text_ = "on";
  std::string effort_text_ = "high";
  CLI::App* command_ = nullptr;
};

}  // namespace fathom
