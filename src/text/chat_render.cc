#include "text/chat_render.h"

#include <algorithm>
#include <utility>

#include "text/chat_messages.h"
#include "text/chat_tokens.h"
#include "text/python_json.h"

namespace fathom {
namespace {

using namespace chat_tokens;
using Kind = ContentBlock::Kind;

// What the template says before and after the schemas, word for word.
constexpr std::string_view kToolsIntroduction = R"(## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "<｜DSML｜ calls>" block like the following:

<｜DSML｜ calls>
<｜DSML｜ invoke name="$TOOL_NAME">
<｜DSML｜ parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜ parameter>
...
</｜DSML｜ invoke>
<｜DSML｜ invoke name="$TOOL_NAME2">
...
</｜DSML｜ invoke>
</｜DSML｜ calls>

String parameters should be specified as is and set `string="true"`. For all other types (numbers, booleans, arrays, objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside <think>...</think> BEFORE any tool calls or final response.

Otherwise, output directly after </think> with tool calls or final response.

### Available Tool Schemas

)";
constexpr std::string_view kToolsConclusion =
    "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n";
constexpr std::string_view kFormatIntroduction =
    "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";
constexpr std::string_view kBlockSeparator = "\n\n";

// Collects segments; what is next to text of the same origin joins it.
class PromptWriter {
 public:
  void trusted(std::string_view text) { add(text, true); }
  void untrusted(std::string_view text) { add(text, false); }
  void image(Json record) {
    trusted(kImage);
    prompt_.images.push_back(std::move(record));
  }
  RenderedPrompt take() { return std::move(prompt_); }

 private:
  void add(std::string_view text, bool is_trusted) {
    if (text.empty()) return;
    auto& segments = prompt_.segments;
    if (segments.empty() || segments.back().trusted != is_trusted)
      segments.push_back({std::string(text), is_trusted});
    else
      segments.back().text += text;
  }
  RenderedPrompt prompt_;
};

class Renderer {
 public:
  Renderer(std::vector<ChatMessage> messages, const ChatOptions& options, bool drop)
      : messages_(std::move(messages)),
        options_(options),
        drop_(drop),
        last_user_(last_user_turn(messages_)) {}

  Result<RenderedPrompt> run() {
    out_.trusted(kBegin);
    for (size_t i = 0; i < messages_.size(); ++i) {
      FATHOM_TRY(message(i));
      turn_end(i);
    }
    return out_.take();
  }

 private:
  bool thinking() const { return options_.mode == ThinkingMode::thinking; }
  // Whether reasoning belongs to message i: before the last user turn it may be forgotten.
  bool remembers(size_t i, bool including_user) const {
    return !drop_ || static_cast<int>(i) > last_user_ ||
           (including_user && static_cast<int>(i) == last_user_);
  }

  Status message(size_t i);
  void opening(size_t i);
  void content(const std::vector<ContentBlock>& blocks);
  void block(const ContentBlock& b);
  void attachments(const ChatMessage& m);
  void assistant(size_t i);
  void calls(const std::vector<ChatCall>& calls);
  void turn_end(size_t i);

  const std::vector<ChatMessage> messages_;
  const ChatOptions& options_;
  const bool drop_;
  const int last_user_;
  PromptWriter out_;
};

// Before the first message: the system mark, when a system message or the effort line needs it.
void Renderer::opening(size_t i) {
  if (i > 0) return;
  if (thinking() || messages_[i].role == ChatRole::system) out_.trusted(kSystem);
  if (thinking())
    out_.trusted(fmt::format(
        "Reasoning Effort: {} (range 1-100, the higher the value, the more thorough the reasoning)\n\n",
        options_.reasoning_effort));
}

void Renderer::block(const ContentBlock& b) {
  switch (b.kind) {
    case Kind::text:
      out_.untrusted(b.text);
      return;
    case Kind::image:
      out_.image(b.image);
      return;
    case Kind::unsupported:
      out_.trusted("[Unsupported ");
      out_.untrusted(b.text);
      out_.trusted("]");
      return;
    case Kind::tool_result:
      out_.trusted("<tool_result>");
      content(b.parts);
      out_.trusted("</tool_result>");
      return;
  }
}

void Renderer::content(const std::vector<ContentBlock>& blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i > 0) out_.trusted(kBlockSeparator);
    block(blocks[i]);
  }
}

void Renderer::attachments(const ChatMessage& m) {
  if (m.tools != nullptr) {
    out_.trusted("\n\n");
    out_.trusted(kToolsIntroduction);
    for (size_t i = 0; i < m.tools->size(); ++i) {
      if (i > 0) out_.trusted("\n");
      out_.untrusted(python_json((*m.tools)[i]["function"]));
    }
    out_.trusted(kToolsConclusion);
  }
  if (m.response_format != nullptr) {
    out_.trusted(kFormatIntroduction);
    out_.untrusted(python_json(*m.response_format));
  }
}

void Renderer::calls(const std::vector<ChatCall>& calls) {
  out_.trusted(kCallsOpen);
  out_.trusted(">\n");
  for (const ChatCall& call : calls) {
    out_.trusted(kInvokeOpen);
    out_.trusted(kNameAttribute);
    out_.untrusted(call.name);
    out_.trusted("\">\n");
    const char* separator = "";
    for (const auto& [key, value] : call.arguments.get_ref<const Json::object_t&>()) {
      out_.trusted(separator);
      out_.trusted(kParameterOpen);
      out_.trusted(kNameAttribute);
      out_.untrusted(key);
      out_.trusted(value.is_string() ? kStringTrue : kStringFalse);
      out_.untrusted(value.is_string() ? value.get_ref<const std::string&>() : python_json(value));
      out_.trusted(kParameterClose);
      out_.trusted(">");
      separator = "\n";
    }
    out_.trusted("\n");  // a call without parameters keeps this line, empty
    out_.trusted(kInvokeClose);
    out_.trusted(">\n");
  }
  out_.trusted(kCallsClose);
}

void Renderer::assistant(size_t i) {
  const ChatMessage& m = messages_[i];
  const bool answers_task = i > 0 && messages_[i - 1].task != nullptr;
  if (thinking() && !answers_task && remembers(i, false)) {
    out_.untrusted(m.reasoning);
    out_.trusted(kEndThink);
  }
  content(m.content);
  if (!m.calls.empty()) calls(m.calls);
  if (!m.without_end) out_.trusted(kEnd);
}

Status Renderer::message(size_t i) {
  const ChatMessage& m = messages_[i];
  opening(i);
  switch (m.role) {
    case ChatRole::system:
      if (i > 0) out_.trusted(kSystem);
      content(m.content);
      attachments(m);
      return {};
    case ChatRole::developer: {
      const auto is_empty = [](const ContentBlock& b) { return b.kind == Kind::text && b.text.empty(); };
      if (m.content.empty() || (m.content.size() == 1 && is_empty(m.content[0])))
        return fail(ErrorCode::invalid_argument, "{}.content: a developer message must not be empty",
                    m.where);
      out_.trusted(kUser);
      content(m.content);
      attachments(m);
      return {};
    }
    case ChatRole::user:
    case ChatRole::tool:  // merged into user turns before
      out_.trusted(kUser);
      content(m.content);
      return {};
    case ChatRole::latest_reminder:
      out_.trusted(kLatestReminder);
      content(m.content);
      return {};
    case ChatRole::assistant:
      assistant(i);
      return {};
  }
  return {};
}

// The cue for an answer, where the assistant speaks next or the conversation ends.
void Renderer::turn_end(size_t i) {
  const ChatMessage& m = messages_[i];
  if (i + 1 < messages_.size()) {
    const ChatRole next = messages_[i + 1].role;
    if (next != ChatRole::assistant && next != ChatRole::latest_reminder) return;
  }
  if (m.task != nullptr) {
    if (m.task->name == "action") {
      out_.trusted(kAssistant);
      out_.trusted(thinking() ? kThink : kEndThink);
    }
    out_.trusted(m.task->token);
    return;
  }
  const bool asks =
      m.role == ChatRole::user || m.role == ChatRole::developer || (m.role == ChatRole::system && i > 0);
  if (!asks) return;
  out_.trusted(kAssistant);
  out_.trusted(thinking() && remembers(i, true) ? kThink : kEndThink);
}

}  // namespace

std::string RenderedPrompt::text() const {
  std::string out;
  for (const TextSegment& segment : segments) out += segment.text;
  return out;
}

Result<RenderedPrompt> render_chat(const Json& messages, const ChatOptions& options) {
  if (options.reasoning_effort < 1 || options.reasoning_effort > 100)
    return fail(ErrorCode::invalid_argument, "reasoning_effort: expected an integer from 1 to 100, found {}",
                options.reasoning_effort);
  FATHOM_ASSIGN(std::vector<ChatMessage> read, read_chat_messages(messages, options.reject_special_text));
  std::vector<ChatMessage> turns = merge_user_turns(std::move(read));
  const bool drop = options.drop_thinking && std::none_of(turns.begin(), turns.end(),
                                                          [](const auto& m) { return m.tools != nullptr; });
  if (options.mode == ThinkingMode::thinking && drop) turns = drop_old_thinking(std::move(turns));
  return Renderer(std::move(turns), options, drop).run();
}

}  // namespace fathom
