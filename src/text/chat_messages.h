// The messages of a conversation, read from JSON and checked, then arranged into the turns the template
// knows.
//
// Internal to rendering. Knows which fields a message may have; knows nothing of special texts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/chat_tokens.h"

namespace fathom {

enum class ChatRole { system, developer, user, tool, latest_reminder, assistant };

/// A block of a message's content.
struct ContentBlock {
  enum class Kind { text, image, unsupported, tool_result };
  Kind kind = Kind::text;
  std::string text;                 // text: itself; unsupported: the type it named
  Json image;                       // image: its record {"type": "image", "url" | "source" | "data"}
  std::string tool_use_id;          // tool_result: the call it answers
  std::vector<ContentBlock> parts;  // tool_result: text, image and unsupported blocks
};

struct ChatCall {
  std::string id;  // empty: none
  std::string name;
  Json arguments;  // an object
};

/// One message. The pointers point into the JSON it was read from.
struct ChatMessage {
  std::string where;  // its path in the request, "messages[3]"
  ChatRole role = ChatRole::user;
  std::vector<ContentBlock> content;  // of any kind for a user; text and images for all others
  std::string reasoning;
  std::vector<ChatCall> calls;
  std::string tool_call_id;
  const Json* tools = nullptr;            // a non-empty array of objects with "function"
  const Json* response_format = nullptr;  // a non-empty object
  const chat_tokens::Task* task = nullptr;
  bool without_end = false;  // assistant: to be continued, no end-of-sentence
};

/// Reads an array of messages. Errors (invalid_argument) name the path and what was found there. With
/// `reject_placeholder`, text that spells the image placeholder is one.
Result<std::vector<ChatMessage>> read_chat_messages(const Json& messages, bool reject_placeholder);

/// Merges tool messages and neighbouring user messages into single user turns, and puts the tool results of a
/// turn in the order of the calls they answer. No message of role `tool` remains.
std::vector<ChatMessage> merge_user_turns(std::vector<ChatMessage> messages);

/// The index of the last message that asks for an answer (user, developer, a system message that is not the
/// first), or -1.
int last_user_turn(const std::vector<ChatMessage>& messages);

/// Leaves out what thinking mode forgets: before the last user turn, developer messages and all reasoning.
std::vector<ChatMessage> drop_old_thinking(std::vector<ChatMessage> messages);

}  // namespace fathom
