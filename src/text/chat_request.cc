#include "text/chat_request.h"

#include <utility>

#include "text/python_json.h"

namespace fathom {
namespace {

constexpr std::pair<std::string_view, int> kEfforts[] = {
    {"low", 50}, {"high", kDefaultReasoningEffort}, {"max", 100}};

const Json* member(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() ? nullptr : &*it;
}

}  // namespace

std::string_view json_kind(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::number_float:
      return "a fraction";
    default:
      return "an integer";
  }
}

Result<int> read_reasoning_effort(const Json& value, std::string_view field) {
  if (value.is_null()) return kDefaultReasoningEffort;
  if (value.is_string()) {
    for (const auto& [word, effort] : kEfforts)
      if (value.get_ref<const std::string&>() == word) return effort;
  } else if (value.is_number_unsigned()) {
    const auto effort = value.get<uint64_t>();
    if (effort >= 1 && effort <= 100) return static_cast<int>(effort);
  } else if (value.is_number_integer()) {
    const auto effort = value.get<int64_t>();
    if (effort >= 1 && effort <= 100) return static_cast<int>(effort);
  }
  std::string found = value.is_structured() ? std::string(json_kind(value)) : python_json(value);
  if (found.size() > 60) found = json_kind(value);
  return fail(ErrorCode::invalid_argument,
              "{}: expected \"low\", \"high\", \"max\" or an integer from 1 to 100, found {}", field, found);
}

Result<ChatRequest> read_chat_request(const Json& request) {
  if (!request.is_object())
    return fail(ErrorCode::invalid_argument, "request: expected an object, found {}", json_kind(request));
  ChatRequest out;
  const Json* messages = member(request, "messages");
  if (messages == nullptr) return fail(ErrorCode::invalid_argument, "messages: missing");
  if (!messages->is_array())
    return fail(ErrorCode::invalid_argument, "messages: expected an array, found {}", json_kind(*messages));
  out.messages = *messages;

  if (const Json* mode = member(request, "thinking_mode"); mode != nullptr && !mode->is_null()) {
    if (*mode == "chat")
      out.options.mode = ThinkingMode::chat;
    else if (*mode == "thinking")
      out.options.mode = ThinkingMode::thinking;
    else
      return fail(ErrorCode::invalid_argument, "thinking_mode: expected \"chat\" or \"thinking\", found {}",
                  mode->is_string() ? "another word" : json_kind(*mode));
  }
  if (const Json* drop = member(request, "drop_thinking"); drop != nullptr && !drop->is_null()) {
    if (!drop->is_boolean())
      return fail(ErrorCode::invalid_argument, "drop_thinking: expected a boolean, found {}",
                  json_kind(*drop));
    out.options.drop_thinking = drop->get<bool>();
  }
  if (const Json* effort = member(request, "reasoning_effort"); effort != nullptr) {
    FATHOM_ASSIGN(out.options.reasoning_effort, read_reasoning_effort(*effort, "reasoning_effort"));
  }
  return out;
}

}  // namespace fathom
