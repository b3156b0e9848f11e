// A complete assistant message and the strict reading of it from the text of a completion (spec 6, Parsing).
//
// For text that must be right: golden cases, tests, tools. What a model is writing goes through
// completion_stream.h, which gives the same message wherever this parser accepts the text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/chat_request.h"

namespace fathom {

struct ToolCall {
  std::string name;
  std::string arguments;  // JSON text of an object; only the beginning of one when the call is unfinished
  bool finished = true;   // false: the text stopped or broke inside the call, which must not be executed

  bool operator==(const ToolCall&) const = default;
};

struct AssistantMessage {
  std::string content;
  std::string reasoning_content;
  std::vector<ToolCall> tool_calls;

  bool operator==(const AssistantMessage&) const = default;
};

/// {"role": "assistant", "content", "reasoning_content", "tool_calls": [{"type": "function", "function":
/// {"name", "arguments"}}]}, as a message of a request may be. `finished` is not part of it.
Json to_json(const AssistantMessage& message);

/// Reads a completion, from what follows the prompt to the end-of-sentence text (which may be missing only
/// after tool calls). In thinking mode it begins inside the reasoning. Errors (format) say what was expected
/// and at which byte. Refused beside broken tags: special texts in content or reasoning, text after the end
/// or after the calls, repeated parameters, string="false" with a value that is not JSON, `">` in a call's
/// name, the DSML mark in the name of a call or parameter, invalid UTF-8. A call without parameters, which
/// the renderer writes with an empty line and models also without, has the arguments {}. Linear time.
Result<AssistantMessage> parse_completion(std::string_view completion, ThinkingMode mode);

/// The name in what follows the word `invoke` in a call's opening tag, up to the first parameter or the
/// closing tag: spaces, name="...">, spaces. Shared by both parsers.
struct InvokeHead {
  enum class Form { complete, unfinished, malformed };
  Form form = Form::malformed;
  std::string_view name;        // complete: points into the text
  std::string_view whitespace;  // complete: what follows the tag
};
InvokeHead read_invoke_head(std::string_view text);

}  // namespace fathom
