#include "text/completion_parse.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "text/argument_writer.h"
#include "text/chat_tokens.h"
#include "text/python_json.h"
#include "text/utf8_repair.h"

namespace fathom {
namespace {

using namespace chat_tokens;
constexpr std::string_view kSpaces = " \t\n\r\f\v";

class StrictParser {
 public:
  explicit StrictParser(std::string_view text) : text_(text) {}

  Result<AssistantMessage> run(ThinkingMode mode);

 private:
  template <class... Args>
  auto error(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(ErrorCode::format, "completion, byte {}: {}", pos_,
                fmt::format(format, std::forward<Args>(args)...));
  }
  std::string_view rest() const { return text_.substr(pos_); }
  bool accept(std::string_view expected) {
    if (!rest().starts_with(expected)) return false;
    pos_ += expected.size();
    return true;
  }
  Status expect(std::string_view expected) {
    if (accept(expected)) return {};
    std::string shown;
    append_json_string(shown, expected);  // a message is one line
    return error("expected {}", shown);
  }
  // Takes the text before the first of `markers`, which stays; all the rest when there is none.
  std::string_view until(std::initializer_list<std::string_view> markers) {
    size_t end = text_.size();
    for (const std::string_view marker : markers) end = std::min(end, text_.find(marker, pos_));
    const std::string_view found = text_.substr(pos_, end - pos_);
    pos_ = end;
    return found;
  }
  Status check_plain(std::string_view text, std::string_view what) const {
    for (const std::string_view special : {kBegin, kEnd, kThink, kEndThink, kDsml})
      if (text.find(special) != std::string_view::npos)
        return fail(ErrorCode::format, "completion: {} contains {}", what, special);
    return {};
  }
  Status calls(AssistantMessage& out);
  Result<ToolCall> call();
  Status parameter(ArgumentWriter& arguments, ToolCall& out);

  std::string_view text_;
  size_t pos_ = 0;
};

Result<AssistantMessage> StrictParser::run(ThinkingMode mode) {
  AssistantMessage out;
  if (mode == ThinkingMode::thinking) {
    out.reasoning_content = until({kEndThink, kCallsOpen});
    FATHOM_TRY(expect(kEndThink));
  }
  out.content = until({kEnd, kCallsOpen});
  FATHOM_TRY(check_plain(out.reasoning_content, "the reasoning"));
  FATHOM_TRY(check_plain(out.content, "the content"));
  if (rest().starts_with(kCallsOpen)) {
    FATHOM_TRY(calls(out));
    if (rest().empty()) return out;
  }
  FATHOM_TRY(expect(kEnd));
  if (!rest().empty()) return error("expected nothing after the end");
  return out;
}

Status StrictParser::calls(AssistantMessage& out) {
  FATHOM_TRY(expect(kCallsOpen));
  FATHOM_TRY(expect(">\n"));
  while (!accept(kCallsClose)) {
    FATHOM_ASSIGN(ToolCall next, call());
    out.tool_calls.push_back(std::move(next));
  }
  return {};
}

Result<ToolCall> StrictParser::call() {
  FATHOM_TRY(expect(kInvokeOpen));
  // The head ends where the first DSML mark begins its tag.
  const size_t mark = text_.find(kDsml, pos_);
  if (mark == std::string_view::npos) return error("expected {}", kInvokeClose);
  const size_t tag = mark - (text_[mark - 1] == '/' ? 2 : 1);
  if (tag < pos_ || text_[tag] != '<') return error("a DSML mark in the name of a call");
  const InvokeHead head = read_invoke_head(text_.substr(pos_, tag - pos_));
  if (head.form != InvokeHead::Form::complete || (head.whitespace != "\n" && head.whitespace != "\n\n"))
    return error("expected name=\"...\"> and a new line");
  ToolCall out;
  out.name = head.name;
  pos_ = tag;
  ArgumentWriter arguments;
  while (!accept(kInvokeClose)) FATHOM_TRY(parameter(arguments, out));
  FATHOM_TRY(expect(">\n"));
  arguments.end(out.arguments);
  return out;
}

Status StrictParser::parameter(ArgumentWriter& arguments, ToolCall& out) {
  FATHOM_TRY(expect(kParameterOpen));
  FATHOM_TRY(expect(kNameAttribute));
  const size_t close = text_.find(kParameterClose.substr(1), pos_);
  if (close == std::string_view::npos) return error("expected {}", kParameterClose);
  if (text_[close - 1] != '<') return error("a closing tag without its <");
  const std::string_view body = text_.substr(pos_, close - 1 - pos_);
  const size_t name_end = std::min(body.find(kStringTrue), body.find(kStringFalse));
  if (name_end == std::string_view::npos) return error("expected string=\"true\"> or string=\"false\">");
  const std::string_view name = body.substr(0, name_end);
  if (name.find(kDsml) != std::string_view::npos) return error("a DSML mark in the name of a parameter");

  const bool is_text = body.substr(name_end).starts_with(kStringTrue);
  if (!arguments.open(name, is_text ? ParameterKind::text : ParameterKind::json, out.arguments))
    return error("the parameter \"{}\" a second time", name);
  const std::string_view value = body.substr(name_end + (is_text ? kStringTrue : kStringFalse).size());
  if (arguments.value(value, out.arguments) < value.size() || !arguments.close(out.arguments) ||
      arguments.repaired())
    return error("the value of \"{}\" is not JSON", name);
  pos_ = close + kParameterClose.size() - 1;
  return expect(">\n");
}

}  // namespace

InvokeHead read_invoke_head(std::string_view text) {
  constexpr std::string_view kName = "name=\"";
  InvokeHead out;
  const std::string_view begin = text.substr(std::min(text.find_first_not_of(kSpaces), text.size()));
  if (!begin.starts_with(kName)) {
    if (kName.starts_with(begin)) out.form = InvokeHead::Form::unfinished;
    return out;
  }
  const std::string_view name = begin.substr(kName.size());
  const size_t end = name.find("\">");
  if (end == std::string_view::npos) {
    if (name.find('\n') == std::string_view::npos) out.form = InvokeHead::Form::unfinished;
    return out;
  }
  const std::string_view after = name.substr(end + 2);
  if (after.find_first_not_of(kSpaces) != std::string_view::npos) return out;
  return {InvokeHead::Form::complete, name.substr(0, end), after};
}

Json to_json(const AssistantMessage& message) {
  Json calls = Json::array();
  for (const ToolCall& call : message.tool_calls)
    calls.push_back(
        {{"type", "function"}, {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  return {{"role", "assistant"},
          {"content", message.content},
          {"reasoning_content", message.reasoning_content},
          {"tool_calls", std::move(calls)}};
}

Result<AssistantMessage> parse_completion(std::string_view completion, ThinkingMode mode) {
  if (!is_valid_utf8(completion))
    return fail(ErrorCode::format, "completion: expected UTF-8, found other bytes");
  return StrictParser(completion).run(mode);
}

}  // namespace fathom
