#include "text/chat_messages.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "text/chat_request.h"

namespace fathom {
namespace {

using Kind = ContentBlock::Kind;
using Blocks = std::vector<ContentBlock>;

const Json* member(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

tl::unexpected<Error> wrong_type(std::string_view where, std::string_view expected, const Json& found) {
  return fail(ErrorCode::invalid_argument, "{}: expected {}, found {}", where, expected, json_kind(found));
}

// A string member; absent or null is the empty string.
Result<std::string> optional_string(const Json& object, const char* key, const std::string& where) {
  const Json* value = member(object, key);
  if (value == nullptr) return std::string();
  if (!value->is_string()) return wrong_type(where + "." + key, "a string", *value);
  return value->get_ref<const std::string&>();
}

class MessageReader {
 public:
  explicit MessageReader(bool reject_placeholder) : reject_placeholder_(reject_placeholder) {}

  Result<ChatMessage> read(const Json& json, std::string where) const;

 private:
  Status check_text(std::string_view text, std::string_view where) const {
    if (reject_placeholder_ && text.find(chat_tokens::kImage) != std::string_view::npos)
      return fail(ErrorCode::invalid_argument, "{}: the image placeholder may not be spelled in text", where);
    return {};
  }
  Result<ContentBlock> text_block(const Json& text, const std::string& where) const;
  Result<ContentBlock> image_block(const Json& json, const std::string& type, const std::string& where) const;
  Result<ContentBlock> tool_result_block(const Json& json, const std::string& where) const;
  Result<ContentBlock> block(const Json& json, const std::string& where, bool in_tool_result) const;
  Result<Blocks> blocks(const Json& array, const std::string& where, bool in_tool_result) const;
  Result<Blocks> content(const Json& json, ChatRole role, const std::string& where) const;
  Result<ChatCall> call(const Json& json, const std::string& where) const;
  Status extras(const Json& json, ChatMessage& out) const;

  bool reject_placeholder_;
};

Result<ContentBlock> MessageReader::text_block(const Json& text, const std::string& where) const {
  if (!text.is_string()) return wrong_type(where, "a string", text);
  FATHOM_TRY(check_text(text.get_ref<const std::string&>(), where));
  ContentBlock out;
  out.text = text.get<std::string>();
  return out;
}

// {"type": "image_url", "image_url": "..." or {"url": "..."}}, or {"type": "image"} with source, url or data.
Result<ContentBlock> MessageReader::image_block(const Json& json, const std::string& type,
                                                const std::string& where) const {
  ContentBlock out;
  out.kind = Kind::image;
  out.image = {{"type", "image"}};
  bool has_source = false;
  const auto take = [&](const char* key, const Json& value, bool may_be_object,
                        const std::string& path) -> Status {
    if (!value.is_string() && !(may_be_object && value.is_object()))
      return wrong_type(path, may_be_object ? "an object or a string" : "a string", value);
    const bool is_empty = value.is_string() ? value.get_ref<const std::string&>().empty() : value.empty();
    has_source = has_source || !is_empty;
    out.image[key] = value;
    return {};
  };
  if (type == "image_url") {
    const Json* url = member(json, "image_url");
    std::string path = where + ".image_url";
    if (url != nullptr && url->is_object()) {
      url = member(*url, "url");
      path += ".url";
    }
    if (url != nullptr) FATHOM_TRY(take("url", *url, false, path));
  } else {
    for (const char* key : {"source", "url", "data"})
      if (const Json* value = member(json, key))
        FATHOM_TRY(take(key, *value, std::string_view(key) == "source", where + "." + key));
  }
  if (!has_source) return fail(ErrorCode::invalid_argument, "{}: an image without a source", where);
  return out;
}

Result<ContentBlock> MessageReader::tool_result_block(const Json& json, const std::string& where) const {
  ContentBlock out;
  out.kind = Kind::tool_result;
  FATHOM_ASSIGN(out.tool_use_id, optional_string(json, "tool_use_id", where));
  const Json* result = member(json, "content");
  const std::string path = where + ".content";
  if (result == nullptr) return out;
  if (result->is_array()) {
    FATHOM_ASSIGN(out.parts, blocks(*result, path, true));
  } else {
    FATHOM_ASSIGN(ContentBlock text, text_block(*result, path));
    out.parts.push_back(std::move(text));
  }
  return out;
}

Result<ContentBlock> MessageReader::block(const Json& json, const std::string& where,
                                          bool in_tool_result) const {
  if (!json.is_object()) return wrong_type(where, "an object", json);
  const Json* type_json = member(json, "type");
  if (type_json == nullptr) return fail(ErrorCode::invalid_argument, "{}.type: missing", where);
  if (!type_json->is_string()) return wrong_type(where + ".type", "a string", *type_json);
  const auto& type = type_json->get_ref<const std::string&>();
  if (type == "text") {
    const auto text = json.find("text");
    if (text == json.end()) return ContentBlock();
    return text_block(*text, where + ".text");
  }
  if (type == "image" || type == "image_url") return image_block(json, type, where);
  if (type == "tool_result" && !in_tool_result) return tool_result_block(json, where);
  ContentBlock out;
  out.kind = Kind::unsupported;
  out.text = type;
  return out;
}

Result<Blocks> MessageReader::blocks(const Json& array, const std::string& where, bool in_tool_result) const {
  Blocks out;
  out.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    FATHOM_ASSIGN(ContentBlock next, block(array[i], fmt::format("{}[{}]", where, i), in_tool_result));
    out.push_back(std::move(next));
  }
  return out;
}

// The content of a message: a string or a list of blocks under "content", or the list under "content_blocks"
// (which wins for a user, while any other role prefers its string). Only a user's turn has a place for other
// blocks than text and images.
Result<Blocks> MessageReader::content(const Json& json, ChatRole role, const std::string& where) const {
  const Json* plain = member(json, "content");
  const Json* list = member(json, "content_blocks");
  std::string list_path = where + ".content_blocks";
  if (list != nullptr && !list->is_array()) return wrong_type(list_path, "an array", *list);
  if (plain != nullptr && plain->is_array()) {
    if (list != nullptr && !list->empty())
      return wrong_type(where + ".content", "a string beside content_blocks", *plain);
    list = std::exchange(plain, nullptr);
    list_path = where + ".content";
  }
  Blocks out;
  if (plain != nullptr) {
    FATHOM_ASSIGN(ContentBlock text, text_block(*plain, where + ".content"));
    out.push_back(std::move(text));
  }
  const bool list_wins = list != nullptr && (plain == nullptr || (role == ChatRole::user && !list->empty()));
  if (list != nullptr) {
    FATHOM_ASSIGN(Blocks listed, blocks(*list, list_path, false));
    if (list_wins) out = std::move(listed);
  }
  if (role != ChatRole::user) {
    std::erase_if(out, [](const ContentBlock& b) { return b.kind != Kind::text && b.kind != Kind::image; });
    return out;
  }
  if (plain == nullptr && list == nullptr) {
    if (json.contains("content"))
      return wrong_type(where + ".content", "a string or an array", json["content"]);
    out.emplace_back();  // a user who says nothing
  }
  return out;
}

Result<ChatCall> MessageReader::call(const Json& json, const std::string& where) const {
  if (!json.is_object()) return wrong_type(where, "an object", json);
  const Json* function = member(json, "function");
  const std::string function_path = where + ".function";
  if (function == nullptr) return fail(ErrorCode::invalid_argument, "{}: missing", function_path);
  if (!function->is_object()) return wrong_type(function_path, "an object", *function);
  ChatCall out;
  FATHOM_ASSIGN(out.id, optional_string(json, "id", where));
  if (out.id.empty()) {
    FATHOM_ASSIGN(out.id, optional_string(*function, "id", function_path));
  }
  const Json* name = member(*function, "name");
  if (name == nullptr) return fail(ErrorCode::invalid_argument, "{}.name: missing", function_path);
  if (!name->is_string()) return wrong_type(function_path + ".name", "a string", *name);
  out.name = name->get<std::string>();

  const Json* arguments = member(*function, "arguments");
  const std::string path = function_path + ".arguments";
  if (arguments == nullptr) return fail(ErrorCode::invalid_argument, "{}: missing", path);
  if (arguments->is_string()) {
    // What a model once wrote must stay sendable, repeated keys and all.
    const JsonLimits limits{.duplicate_keys = DuplicateKeys::last_wins};
    auto parsed = parse_json(arguments->get_ref<const std::string&>(), path, limits);
    if (!parsed) return fail(ErrorCode::invalid_argument, "{}", parsed.error().message);
    out.arguments = std::move(*parsed);
  } else {
    out.arguments = *arguments;
  }
  if (!out.arguments.is_object()) return wrong_type(path, "a JSON object or its text", out.arguments);
  return out;
}

// Tools, response format and task.
Status MessageReader::extras(const Json& json, ChatMessage& out) const {
  if (const Json* tools = member(json, "tools")) {
    const std::string path = out.where + ".tools";
    if (!tools->is_array()) return wrong_type(path, "an array", *tools);
    for (size_t i = 0; i < tools->size(); ++i) {
      const Json& tool = (*tools)[i];
      const std::string tool_path = fmt::format("{}[{}]", path, i);
      if (!tool.is_object()) return wrong_type(tool_path, "an object", tool);
      const Json* function = member(tool, "function");
      if (function == nullptr) return fail(ErrorCode::invalid_argument, "{}.function: missing", tool_path);
      if (!function->is_object()) return wrong_type(tool_path + ".function", "an object", *function);
    }
    if (!tools->empty()) out.tools = tools;
  }
  if (const Json* format = member(json, "response_format")) {
    if (!format->is_object()) return wrong_type(out.where + ".response_format", "an object", *format);
    if (!format->empty()) out.response_format = format;
  }
  if (const Json* task = member(json, "task")) {
    const std::string path = out.where + ".task";
    if (!task->is_string()) return wrong_type(path, "a string", *task);
    for (const chat_tokens::Task& known : chat_tokens::kTasks)
      if (known.name == task->get_ref<const std::string&>()) out.task = &known;
    if (out.task == nullptr)
      return fail(ErrorCode::invalid_argument,
                  "{}: expected action, authority, domain, query, read_url or title, found another word",
                  path);
  }
  return {};
}

Result<ChatRole> read_role(const Json& json, const std::string& where) {
  constexpr std::pair<std::string_view, ChatRole> kRoles[] = {
      {"system", ChatRole::system},       {"developer", ChatRole::developer},
      {"user", ChatRole::user},           {"tool", ChatRole::tool},
      {"assistant", ChatRole::assistant}, {"latest_reminder", ChatRole::latest_reminder}};
  const Json* role = member(json, "role");
  if (role == nullptr) return fail(ErrorCode::invalid_argument, "{}.role: missing", where);
  if (!role->is_string()) return wrong_type(where + ".role", "a string", *role);
  for (const auto& [name, value] : kRoles)
    if (name == role->get_ref<const std::string&>()) return value;
  return fail(
      ErrorCode::invalid_argument,
      "{}.role: expected system, developer, user, assistant, tool or latest_reminder, found another word",
      where);
}

Result<ChatMessage> MessageReader::read(const Json& json, std::string where) const {
  if (!json.is_object()) return wrong_type(where, "an object", json);
  ChatMessage out;
  FATHOM_ASSIGN(out.role, read_role(json, where));
  FATHOM_ASSIGN(out.content, content(json, out.role, where));
  if (out.role == ChatRole::latest_reminder && member(json, "content") == nullptr &&
      member(json, "content_blocks") == nullptr)
    return fail(ErrorCode::invalid_argument, "{}.content: missing", where);
  FATHOM_ASSIGN(out.reasoning, optional_string(json, "reasoning_content", where));
  FATHOM_TRY(check_text(out.reasoning, where + ".reasoning_content"));
  FATHOM_ASSIGN(out.tool_call_id, optional_string(json, "tool_call_id", where));
  if (const Json* calls = member(json, "tool_calls")) {
    const std::string path = where + ".tool_calls";
    if (!calls->is_array()) return wrong_type(path, "an array", *calls);
    for (size_t i = 0; i < calls->size(); ++i) {
      FATHOM_ASSIGN(ChatCall next, call((*calls)[i], fmt::format("{}[{}]", path, i)));
      out.calls.push_back(std::move(next));
    }
  }
  if (const Json* without_end = member(json, "wo_eos")) {
    if (!without_end->is_boolean()) return wrong_type(where + ".wo_eos", "a boolean", *without_end);
    out.without_end = without_end->get<bool>();
  }
  out.where = std::move(where);
  FATHOM_TRY(extras(json, out));
  return out;
}

// A tool message as the block it becomes in a user's turn.
ContentBlock tool_result_of(ChatMessage message) {
  ContentBlock out;
  out.kind = Kind::tool_result;
  out.tool_use_id = std::move(message.tool_call_id);
  out.parts = std::move(message.content);
  return out;
}

using CallOrder = std::unordered_map<std::string, size_t>;  // id of a call -> its place

// A result that answers no known call counts as the first call's; equals keep their order.
void order_tool_results(Blocks& content, const CallOrder& order) {
  std::vector<std::pair<size_t, ContentBlock>> results;
  for (ContentBlock& b : content) {
    if (b.kind != Kind::tool_result) continue;
    const auto place = order.find(b.tool_use_id);
    results.emplace_back(place == order.end() ? 0 : place->second, std::move(b));
  }
  std::stable_sort(results.begin(), results.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  auto next = results.begin();
  for (ContentBlock& b : content)
    if (b.kind == Kind::tool_result) b = std::move((next++)->second);
}

}  // namespace

Result<std::vector<ChatMessage>> read_chat_messages(const Json& messages, bool reject_placeholder) {
  if (!messages.is_array()) return wrong_type("messages", "an array", messages);
  const MessageReader reader(reject_placeholder);
  std::vector<ChatMessage> out;
  out.reserve(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    FATHOM_ASSIGN(ChatMessage next, reader.read(messages[i], fmt::format("messages[{}]", i)));
    out.push_back(std::move(next));
  }
  return out;
}

std::vector<ChatMessage> merge_user_turns(std::vector<ChatMessage> messages) {
  std::vector<ChatMessage> out;
  out.reserve(messages.size());
  for (ChatMessage& message : messages) {
    ChatMessage* turn = !out.empty() && out.back().role == ChatRole::user ? &out.back() : nullptr;
    if (message.role == ChatRole::tool) {
      if (turn == nullptr) {
        turn = &out.emplace_back();
        turn->where = message.where;
      }
      turn->content.push_back(tool_result_of(std::move(message)));
    } else if (message.role == ChatRole::user && turn != nullptr && turn->task == nullptr) {
      std::move(message.content.begin(), message.content.end(), std::back_inserter(turn->content));
    } else {
      out.push_back(std::move(message));
    }
  }
  CallOrder order;  // of the latest assistant message with calls
  for (ChatMessage& message : out) {
    if (message.role == ChatRole::assistant && !message.calls.empty()) {
      order.clear();
      for (size_t i = 0; i < message.calls.size(); ++i)
        if (!message.calls[i].id.empty()) order[message.calls[i].id] = i;
    } else if (message.role == ChatRole::user && !order.empty()) {
      order_tool_results(message.content, order);
    }
  }
  return out;
}

int last_user_turn(const std::vector<ChatMessage>& messages) {
  for (int i = static_cast<int>(messages.size()) - 1; i >= 0; --i) {
    const ChatRole role = messages[static_cast<size_t>(i)].role;
    if (role == ChatRole::user || role == ChatRole::developer || (role == ChatRole::system && i > 0))
      return i;
  }
  return -1;
}

std::vector<ChatMessage> drop_old_thinking(std::vector<ChatMessage> messages) {
  const int last = last_user_turn(messages);
  std::vector<ChatMessage> out;
  out.reserve(messages.size());
  for (int i = 0; i < static_cast<int>(messages.size()); ++i) {
    ChatMessage& message = messages[static_cast<size_t>(i)];
    if (i < last && message.role == ChatRole::developer) continue;
    if (i < last) message.reasoning.clear();
    out.push_back(std::move(message));
  }
  return out;
}

}  // namespace fathom
