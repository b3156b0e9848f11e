// A request, from JSON text to the prompt: no crash, and the promises of the rendered prompt hold.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "text/chat_render.h"
#include "text/chat_tokens.h"
#include "text/python_json.h"

namespace {

using namespace fathom;

size_t count(std::string_view text, std::string_view what) {
  size_t found = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + what.size()))
    ++found;
  return found;
}

// Every image has its placeholder, and only images have one; segments alternate.
void check_prompt(const RenderedPrompt& prompt) {
  size_t placeholders = 0;
  const TextSegment* last = nullptr;
  for (const TextSegment& segment : prompt.segments) {
    FATHOM_CHECK(!segment.text.empty());
    FATHOM_CHECK(last == nullptr || last->trusted != segment.trusted);
    if (segment.trusted) placeholders += count(segment.text, chat_tokens::kImage);
    last = &segment;
  }
  FATHOM_CHECK_EQ(placeholders, prompt.images.size());
  FATHOM_CHECK(prompt.segments.front().trusted);
  FATHOM_CHECK(prompt.segments.front().text.starts_with(chat_tokens::kBegin));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto json = parse_json({reinterpret_cast<const char*>(data), size}, "request");
  if (!json) return 0;

  // What is written as JSON text reads back as the same value.
  const std::string text = python_json(*json);
  const auto again = parse_json(text, "again");
  FATHOM_CHECK(again.has_value());
  FATHOM_CHECK_EQ(python_json(*again), text);

  auto request = read_chat_request(*json);
  if (!request) {
    FATHOM_CHECK(!request.error().message.empty());
    return 0;
  }
  const auto plain = render_chat(request->messages, request->options);
  if (plain) check_prompt(*plain);
  request->options.reject_special_text = true;
  const auto strict = render_chat(request->messages, request->options);
  FATHOM_CHECK(!strict || plain.has_value());  // refusing more never accepts more
  if (strict) FATHOM_CHECK(strict->segments == plain->segments);
  return 0;
}
