// The special texts of the chat format and the tags of tool calls, each written here once (spec 6).
//
// Used by the renderer and by both completion parsers; which of them are tokens is the tokenizer's matter.
#pragma once

#include <string_view>

namespace fathom::chat_tokens {

inline constexpr std::string_view kBegin = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view kEnd = "<｜end▁of▁sentence｜>";
inline constexpr std::string_view kUser = "<｜User｜>";
inline constexpr std::string_view kAssistant = "<｜Assistant｜>";
inline constexpr std::string_view kSystem = "<｜System｜>";
inline constexpr std::string_view kLatestReminder = "<｜latest_reminder｜>";
inline constexpr std::string_view kThink = "<think>";
inline constexpr std::string_view kEndThink = "</think>";
inline constexpr std::string_view kDsml = "｜DSML｜";
inline constexpr std::string_view kImage = "<｜deepseek_image｜>";

// A task ends a turn in the place of an answer.
struct Task {
  std::string_view name, token;
};
inline constexpr Task kTasks[] = {
    {"action", "<｜action｜>"}, {"authority", "<｜authority｜>"}, {"domain", "<｜domain｜>"},
    {"query", "<｜query｜>"},   {"read_url", "<｜read_url｜>"},   {"title", "<｜title｜>"},
};

// Tool calls. Tags stand without their ">" where attributes follow, or where parsers look at what comes
// after the name; a space follows the DSML mark.
inline constexpr std::string_view kCallsOpen = "\n\n<｜DSML｜ calls";
inline constexpr std::string_view kCallsClose = "</｜DSML｜ calls>";
inline constexpr std::string_view kInvokeOpen = "<｜DSML｜ invoke";
inline constexpr std::string_view kInvokeClose = "</｜DSML｜ invoke";
inline constexpr std::string_view kParameterOpen = "<｜DSML｜ parameter";
inline constexpr std::string_view kParameterClose = "</｜DSML｜ parameter";
inline constexpr std::string_view kNameAttribute = " name=\"";
inline constexpr std::string_view kStringTrue = "\" string=\"true\">";    // ends a parameter's name
inline constexpr std::string_view kStringFalse = "\" string=\"false\">";  // the same; the value is JSON

}  // namespace fathom::chat_tokens
