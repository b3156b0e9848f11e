#include "text/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstdint>

#include "base/json.h"
#include "text/regex_dialect.h"

namespace fathom {
namespace {

// Work is counted at callouts, which PCRE2 makes before every item of a pattern: one for the callout, and
// the bytes passed or stepped back over since the last. The patterns of DeepSeek V3 need at most 13 a byte
// on long runs of any one kind of character; a pattern that goes past this many is not one to wait for.
constexpr uint64_t work_per_byte = 1000;
constexpr uint64_t work_free = 10'000;

struct Work {
  uint64_t used = 0;
  uint64_t limit = 0;
  size_t last = 0;  // position of the last callout
};

int count_work(pcre2_callout_block* block, void* data) {
  Work& work = *static_cast<Work*>(data);
  const size_t position = block->current_position;
  work.used += 1 + (position > work.last ? position - work.last : work.last - position);
  work.last = position;
  return work.used > work.limit ? PCRE2_ERROR_CALLOUT : 0;
}

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// A pattern for a message: on one line, its beginning if it is long.
std::string quote(const std::string& pattern) {
  constexpr size_t longest = 200;
  std::string quoted = Json(pattern).dump(-1, ' ', true, Json::error_handler_t::replace);
  if (quoted.size() > longest) quoted = quoted.substr(0, longest) + "...";
  return quoted;
}

struct CodeFree {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct CompileContextFree {
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};
struct MatchContextFree {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct MatchDataFree {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

}  // namespace

struct PreTokenizer::Pattern {
  std::string name;  // for messages
  std::unique_ptr<pcre2_code, CodeFree> code;

  Status cut(std::string_view text, const TextRange& piece, pcre2_match_data* data,
             pcre2_match_context* context, Work& work, std::vector<TextRange>& out) const;
};

PreTokenizer::PreTokenizer(std::vector<Pattern> patterns) : patterns_(std::move(patterns)) {}
PreTokenizer::PreTokenizer(PreTokenizer&&) noexcept = default;
PreTokenizer& PreTokenizer::operator=(PreTokenizer&&) noexcept = default;
PreTokenizer::~PreTokenizer() = default;

Result<PreTokenizer> PreTokenizer::build(const std::vector<std::string>& patterns, std::string_view what) {
  const std::unique_ptr<pcre2_compile_context, CompileContextFree> context(
      pcre2_compile_context_create(nullptr));
  if (!context) return fail(ErrorCode::out_of_memory, "{}: no memory for a regular expression", what);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);  // what . does not match
  std::vector<Pattern> compiled;
  for (const std::string& source : patterns) {
    const auto translated = translate_regex(source);
    if (!translated)
      return fail(ErrorCode::unsupported, "{}: regular expression {}: {}", what, quote(source),
                  translated.error().message);
    int error = 0;
    size_t offset = 0;
    Pattern pattern;
    pattern.name = quote(source);
    pattern.code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_AUTO_CALLOUT, &error, &offset,
                                     context.get()));
    if (!pattern.code)
      return fail(ErrorCode::format, "{}: regular expression {}: {}", what, quote(source),
                  pcre2_message(error));
    uint32_t matches_empty = 1;
    pcre2_pattern_info(pattern.code.get(), PCRE2_INFO_MATCHEMPTY, &matches_empty);
    if (matches_empty != 0)
      return fail(ErrorCode::unsupported, "{}: regular expression {} may match the empty text", what,
                  quote(source));
    // Where no executable memory is to be had PCRE2 interprets instead, with the same matches.
    (void)pcre2_jit_compile(pattern.code.get(), PCRE2_JIT_COMPLETE);
    compiled.push_back(std::move(pattern));
  }
  return PreTokenizer(std::move(compiled));
}

Status PreTokenizer::Pattern::cut(std::string_view text, const TextRange& piece, pcre2_match_data* data,
                                  pcre2_match_context* context, Work& work,
                                  std::vector<TextRange>& out) const {
  // The piece alone is the subject: looking ahead stops at its end.
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data() + piece.begin);
  const size_t size = piece.end - piece.begin;
  size_t at = 0;
  while (at < size) {
    work.last = at;
    const int rc = pcre2_match(code.get(), subject, size, at, PCRE2_NO_UTF_CHECK, data, context);
    if (rc == PCRE2_ERROR_NOMATCH) break;
    if (rc < 0)
      return fail(ErrorCode::invalid_argument, "the regular expression {} takes too long on this text ({})",
                  name, pcre2_message(rc));
    const size_t* match = pcre2_get_ovector_pointer(data);
    if (match[0] > at) out.push_back({piece.begin + at, piece.begin + match[0]});
    out.push_back({piece.begin + match[0], piece.begin + match[1]});
    at = match[1];
  }
  if (at < size) out.push_back({piece.begin + at, piece.end});
  return {};
}

Status PreTokenizer::split(std::string_view text, std::vector<TextRange>& pieces) const {
  pieces.clear();
  if (text.empty()) return {};
  pieces.push_back({0, text.size()});
  const std::unique_ptr<pcre2_match_data, MatchDataFree> data(pcre2_match_data_create(1, nullptr));
  const std::unique_ptr<pcre2_match_context, MatchContextFree> context(pcre2_match_context_create(nullptr));
  if (!data || !context) return fail(ErrorCode::out_of_memory, "no memory to match regular expressions");
  std::vector<TextRange> cut;
  for (const Pattern& pattern : patterns_) {
    Work work;
    work.limit = work_free + work_per_byte * text.size();
    pcre2_set_callout(context.get(), count_work, &work);
    cut.clear();
    for (const TextRange& piece : pieces)
      FATHOM_TRY(pattern.cut(text, piece, data.get(), context.get(), work, cut));
    pieces.swap(cut);
  }
  return {};
}

}  // namespace fathom
