// From messages to the prompt that asks the model for the next one.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "cli/options.h"
#include "cli/prompt_images.h"
#include "text/chat_render.h"

namespace fathom {

ThinkingMode thinking_mode(const ThinkingFlags& flags);

/// Renders and tokenizes a conversation, whose images `images` has. Errors: those of rendering and
/// tokenizing.
Result<Prompt> chat_prompt(const PromptImages& images, const Json& messages, const ThinkingFlags& flags);

/// A user's message of images, in their order, and text after them.
Json user_message(std::span<const std::shared_ptr<const ImageEmbedding>> images, const std::string& text);

}  // namespace fathom
