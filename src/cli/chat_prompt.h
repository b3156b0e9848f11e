// From messages to the tokens that ask the model for the next one.
#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cli/options.h"
#include "text/chat_render.h"
#include "text/tokenizer.h"

namespace fathom {

ThinkingMode thinking_mode(const ThinkingFlags& flags);

/// Renders and tokenizes a conversation. What the messages say stays text: no special tokens come from it.
/// Errors: those of rendering and tokenizing; unsupported for a conversation with images.
Result<std::vector<int32_t>> chat_prompt(const Tokenizer& tokenizer, const Json& messages,
                                         const ThinkingFlags& flags);

}  // namespace fathom
