// The prompt of a conversation, in segments that say who wrote each piece (spec 6, Rendering).
//
// Text comes out, no tokens: knows nothing of the vocabulary, and of images only where they stand.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/chat_request.h"
#include "text/segment.h"

namespace fathom {

struct RenderedPrompt {
  std::vector<TextSegment> segments;  // neighbours differ in trust; none is empty
  // One record for each image placeholder in a trusted segment, in the order of the placeholders:
  // {"type": "image"} with "url", or with those of "source", "url" and "data" that the block had.
  std::vector<Json> images;

  /// The whole prompt.
  std::string text() const;
};

/// Renders an array of messages. Roles: system, developer, user, assistant, tool, latest_reminder. Trusted is
/// what the template writes; everything that came in the messages is not. Linear in the size of `messages`.
/// Errors: invalid_argument, naming the path ("messages[2].tool_calls[0].function.arguments: ...").
Result<RenderedPrompt> render_chat(const Json& messages, const ChatOptions& options);

}  // namespace fathom
