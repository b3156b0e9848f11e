// The golden conversations and completions, read for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/file.h"
#include "base/json.h"
#include "text/chat_request.h"

namespace fathom::test {

inline Json read_json_file(const std::string& path) {
  const auto text = read_file(std::string(FATHOM_SOURCE_DIR) + "/" + path, 64 << 20);
  if (!text) {
    ADD_FAILURE() << text.error().message;
    return {};
  }
  auto json = parse_json(*text, path);
  if (!json) {
    ADD_FAILURE() << json.error().message;
    return {};
  }
  return std::move(*json);
}

inline Json chat_golden() { return read_json_file("tests/golden/text/chat.json"); }

inline ThinkingMode mode_of(const Json& golden_case) {
  return golden_case["thinking_mode"] == "thinking" ? ThinkingMode::thinking : ThinkingMode::chat;
}

}  // namespace fathom::test
