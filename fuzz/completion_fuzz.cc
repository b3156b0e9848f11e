// A completion through both parsers and through several splits of the streaming one. The first byte chooses
// the mode and the splits, the rest is the text.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "text/chat_render.h"
#include "text/chat_tokens.h"
#include "text/completion_parse.h"
#include "text/completion_stream.h"
#include "text/json_scanner.h"

namespace {

using namespace fathom;

AssistantMessage stream(std::string_view text, ThinkingMode mode, size_t piece) {
  AssistantMessage message;
  CompletionStream parser(mode);
  for (size_t i = 0; i < text.size(); i += piece)
    for (const CompletionEvent& event : parser.push(text.substr(i, piece))) apply(event, message);
  for (const CompletionEvent& event : parser.finish()) apply(event, message);
  return message;
}

// Whether leaving out each end-of-sentence text makes another of the pieces around one.
bool nests_end_texts(std::string text) {
  for (size_t at = text.find(chat_tokens::kEnd); at != std::string::npos;
       at = text.find(chat_tokens::kEnd, at))
    text.erase(at, chat_tokens::kEnd.size());
  return text.find(chat_tokens::kEnd) != std::string::npos;
}

void check_message(const AssistantMessage& message, std::string_view text) {
  if (!nests_end_texts(std::string(text))) {
    FATHOM_CHECK(message.content.find(chat_tokens::kEnd) == std::string::npos);
    FATHOM_CHECK(message.reasoning_content.find(chat_tokens::kEnd) == std::string::npos);
  }
  for (const ToolCall& call : message.tool_calls) {
    JsonScanner scanner(64);
    FATHOM_CHECK_EQ(scanner.take(call.arguments), call.arguments.size());
    FATHOM_CHECK(scanner.is_whole() == call.finished);
    FATHOM_CHECK(call.arguments.starts_with('{'));
    if (!call.finished) continue;
    // Agreement with the parser of requests; numbers beyond a double are the one thing it refuses.
    const auto json = parse_json(call.arguments, "arguments", {.duplicate_keys = DuplicateKeys::last_wins});
    FATHOM_CHECK(json.has_value() || json.error().message.find("number overflow") != std::string::npos);
    FATHOM_CHECK(!json || json->is_object());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const ThinkingMode mode = (data[0] & 1) != 0 ? ThinkingMode::thinking : ThinkingMode::chat;
  const size_t piece = 1 + (data[0] >> 1) % 64;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);

  const AssistantMessage whole = stream(text, mode, std::max<size_t>(text.size(), 1));
  check_message(whole, text);
  FATHOM_CHECK(stream(text, mode, 1) == whole);
  FATHOM_CHECK(stream(text, mode, piece) == whole);
  if (const auto strict = parse_completion(text, mode)) {
    FATHOM_CHECK(*strict == whole);
    // What was parsed can be sent back.
    const Json messages = Json::array({to_json(*strict)});
    const auto prompt = render_chat(messages, {.mode = mode});
    FATHOM_CHECK(prompt.has_value() || prompt.error().message.find("number overflow") != std::string::npos);
  }
  return 0;
}
