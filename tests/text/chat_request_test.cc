// The fields of a request and their rules.
#include "text/chat_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fathom {
namespace {

using ::testing::StartsWith;

Result<ChatRequest> read(std::string_view text) {
  FATHOM_ASSIGN(const Json json, parse_json(text, "test"));
  return read_chat_request(json);
}

TEST(ChatRequest, HasDefaults) {
  const auto request = read(R"({"messages":[],"model":"x"})");
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->options.mode, ThinkingMode::thinking);
  EXPECT_TRUE(request->options.drop_thinking);
  EXPECT_EQ(request->options.reasoning_effort, 75);
  EXPECT_FALSE(request->options.reject_special_text);
}

TEST(ChatRequest, ReadsItsFields) {
  const auto request =
      read(R"({"messages":[1],"thinking_mode":"chat","drop_thinking":false,"reasoning_effort":"max"})");
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->options.mode, ThinkingMode::chat);
  EXPECT_FALSE(request->options.drop_thinking);
  EXPECT_EQ(request->options.reasoning_effort, 100);
  EXPECT_EQ(request->messages, Json::array({1}));
}

TEST(ChatRequest, NamesTheWrongField) {
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "request: expected an object, found an array"},
      {"{}", "messages: missing"},
      {R"({"messages":"x"})", "messages: expected an array, found a string"},
      {R"({"messages":[],"thinking_mode":"deep"})", "thinking_mode: expected"},
      {R"({"messages":[],"thinking_mode":1})", "thinking_mode: expected"},
      {R"({"messages":[],"drop_thinking":"no"})", "drop_thinking: expected a boolean, found a string"},
      {R"({"messages":[],"reasoning_effort":101})", "reasoning_effort: expected"},
  };
  for (const auto& [text, expected] : cases) {
    const auto request = read(text);
    ASSERT_FALSE(request.has_value()) << text;
    EXPECT_THAT(request.error().message, StartsWith(expected));
  }
}

TEST(ReasoningEffort, TakesWordsAndIntegers) {
  const std::pair<Json, int> cases[] = {{nullptr, 75}, {"low", 50}, {"high", 75}, {"max", 100},
                                        {1, 1},        {100u, 100}, {33, 33}};
  for (const auto& [value, expected] : cases)
    EXPECT_EQ(read_reasoning_effort(value, "effort"), expected) << value;
}

TEST(ReasoningEffort, RefusesAnythingElse) {
  const Json cases[] = {0,
                        101,
                        -1,
                        101u,
                        1.5,
                        50.0,
                        true,
                        "High",
                        "75",
                        "",
                        "medium",
                        Json::array({50}),
                        Json::object(),
                        18446744073709551615u};
  for (const Json& value : cases) {
    const auto effort = read_reasoning_effort(value, "effort");
    ASSERT_FALSE(effort.has_value()) << value;
    EXPECT_THAT(effort.error().message,
                StartsWith("effort: expected \"low\", \"high\", \"max\" or an integer"));
  }
  EXPECT_FALSE(read_reasoning_effort(*parse_json("36893488147419103232", "x"), "effort").has_value());
}

}  // namespace
}  // namespace fathom
