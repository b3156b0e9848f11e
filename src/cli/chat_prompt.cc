#include "cli/chat_prompt.h"

namespace fathom {

ThinkingMode thinking_mode(const ThinkingFlags& flags) {
  return flags.thinking ? ThinkingMode::thinking : ThinkingMode::chat;
}

Result<std::vector<int32_t>> chat_prompt(const Tokenizer& tokenizer, const Json& messages,
                                         const ThinkingFlags& flags) {
  FATHOM_ASSIGN(const RenderedPrompt prompt, render_chat(messages, {.mode = thinking_mode(flags),
                                                                    .drop_thinking = true,
                                                                    .reasoning_effort = flags.effort,
                                                                    .reject_special_text = false}));
  if (!prompt.images.empty())
    return fail(ErrorCode::unsupported, "images: this version reads text alone; the conversation has {}",
                prompt.images.size());
  return tokenizer.encode(prompt.segments);
}

}  // namespace fathom
