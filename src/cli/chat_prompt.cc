#include "cli/chat_prompt.h"

namespace fathom {

ThinkingMode thinking_mode(const ThinkingFlags& flags) {
  return flags.thinking ? ThinkingMode::thinking : ThinkingMode::chat;
}

Result<Prompt> chat_prompt(const PromptImages& images, const Json& messages, const ThinkingFlags& flags) {
  FATHOM_ASSIGN(const RenderedPrompt prompt, render_chat(messages, {.mode = thinking_mode(flags),
                                                                    .drop_thinking = true,
                                                                    .reasoning_effort = flags.effort,
                                                                    .reject_special_text = false}));
  return images.place(prompt);
}

Json user_message(std::span<const std::shared_ptr<const ImageEmbedding>> images, const std::string& text) {
  if (images.empty()) return {{"role", "user"}, {"content", text}};
  Json parts = Json::array();
  for (const auto& image : images) parts.push_back(PromptImages::message_part(*image));
  parts.push_back({{"type", "text"}, {"text", text}});
  return {{"role", "user"}, {"content", parts}};
}

}  // namespace fathom
