// What a conversation is rendered with, and reading it from the request format of the golden cases.
//
// Knows field names and their rules; the messages themselves are read by the renderer.
#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace fathom {

enum class ThinkingMode { chat, thinking };

inline constexpr int kDefaultReasoningEffort = 75;

struct ChatOptions {
  ThinkingMode mode = ThinkingMode::thinking;
  bool drop_thinking = true;  // leave out earlier reasoning; has no effect in conversations with tools
  int reasoning_effort = kDefaultReasoningEffort;  // 1..100; written in thinking mode only
  // Refuse text that spells the image placeholder, as the reference's encoder function does. Off, it is
  // plain untrusted text like any other: refusing would lock a conversation in which a model wrote it.
  bool reject_special_text = false;
};

struct ChatRequest {
  ChatOptions options;
  Json messages;  // an array; its items are checked by render_chat()
};

/// A reasoning effort: null is the default, low 50, high 75, max 100, or an integer 1..100 (spec 6).
/// `field` names it in messages. Errors: invalid_argument.
Result<int> read_reasoning_effort(const Json& value, std::string_view field);

/// Reads {"messages", "thinking_mode", "drop_thinking", "reasoning_effort"}: only `messages` is required,
/// thinking_mode is "chat" or "thinking" (the default), other fields are ignored. Errors: invalid_argument,
/// naming the field.
Result<ChatRequest> read_chat_request(const Json& request);

/// What kind of JSON value this is, with its article, for messages: "a string", "null", "an integer".
std::string_view json_kind(const Json& value);

}  // namespace fathom
