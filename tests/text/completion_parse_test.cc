// The strict parser against the golden completions, and what it refuses.
#include "text/completion_parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/text/chat_golden.h"
#include "text/chat_render.h"

namespace fathom {
namespace {

using test::chat_golden;
using test::mode_of;

std::string block(const std::string& calls) {
  return "\n\n<｜DSML｜ calls>\n" + calls + "</｜DSML｜ calls><｜end▁of▁sentence｜>";
}
std::string invoke(const std::string& inside) {
  return "<｜DSML｜ invoke name=\"f\">\n" + inside + "</｜DSML｜ invoke>\n";
}
std::string parameter(const std::string& name, const std::string& kind, const std::string& value) {
  return "<｜DSML｜ parameter name=\"" + name + "\" string=\"" + kind + "\">" + value +
         "</｜DSML｜ parameter>\n";
}

// The arguments of the only call, or the error.
std::string arguments_of(const std::string& completion) {
  const auto message = parse_completion(completion, ThinkingMode::chat);
  if (!message) return std::string("error: ") + message.error().message;
  if (message->tool_calls.size() != 1) return "error: not one call";
  return message->tool_calls[0].arguments;
}

TEST(CompletionParse, GivesTheGoldenMessages) {
  const Json golden = chat_golden();
  ASSERT_EQ(golden["parse"].size(), 14u);
  for (const Json& c : golden["parse"]) {
    SCOPED_TRACE(c["name"].get<std::string>());
    const auto message = parse_completion(c["completion"].get<std::string>(), mode_of(c));
    ASSERT_EQ(message.has_value(), !c.contains("error")) << (message ? "" : message.error().message);
    if (message) {
      EXPECT_EQ(to_json(*message).dump(), c["message"].dump());
    }
  }
}

// The renderer writes an empty line there; a model may leave it out. Either way it asked for a call.
TEST(CompletionParse, ACallWithoutParametersHasEmptyArguments) {
  const auto rendered = chat_golden()["encoder_writes_call_without_parameters_as"].get<std::string>();
  EXPECT_EQ(arguments_of(rendered + "<｜end▁of▁sentence｜>"), "{}");
  EXPECT_EQ(arguments_of(block(invoke("\n"))), "{}");
  EXPECT_EQ(arguments_of(block(invoke(""))), "{}");
}

TEST(CompletionParse, OtherBodiesAreNoCall) {
  for (const char* body :
       {"\"x\"\n", "[1]\n", "null\n", "{}\n", "5", "{\"a\": 1}\n", "\n\n", " \n", "<a b=\"c\">\n"})
    EXPECT_THAT(arguments_of(block(invoke(body))), ::testing::StartsWith("error")) << body;
}

TEST(CompletionParse, ValuesAreTextOrJson) {
  EXPECT_EQ(arguments_of(
                block(invoke(parameter("a", "true", "") + parameter("b\"", "false", " [1,{\"k\":2.50}] ")))),
            "{\"a\": \"\", \"b\\\"\":  [1,{\"k\":2.50}] }");
  for (const char* value :
       {"", "x", "1 2", "[1,]", "{\"a\":1", "1}", "1, \"evil\": 2", "NaN", "01", "'a'", "\"\x01\""})
    EXPECT_THAT(arguments_of(block(invoke(parameter("a", "false", value)))), ::testing::StartsWith("error"))
        << value;
}

TEST(CompletionParse, ValuesMaySpellSpecialTexts) {
  EXPECT_EQ(
      arguments_of(block(invoke(parameter("a", "true", "<think></think><｜end▁of▁sentence｜>｜DSML｜")))),
      "{\"a\": \"<think></think><｜end▁of▁sentence｜>｜DSML｜\"}");
}

TEST(CompletionParse, RefusesBrokenTags) {
  const std::string one = parameter("a", "true", "v");
  for (const std::string& text :
       {std::string(), std::string("a\xFF<｜end▁of▁sentence｜>"), block(invoke("") + invoke("x")),
        block(invoke(one + "x")), block(invoke(one + "\n")), block(std::string("\n").append(invoke(one))),
        block("<｜DSML｜ invoke name=\"f\"></｜DSML｜ invoke>\n"),
        block("<｜DSML｜ invoke name=f>\n</｜DSML｜ invoke>\n"),
        block("<｜DSML｜ invoke name=\"f｜DSML｜\">\n</｜DSML｜ invoke>\n"),
        block(invoke(parameter("a｜DSML｜", "true", "v"))), block(invoke(parameter("a", "maybe", "v"))),
        block(invoke("<｜DSML｜ parameter name=\"a\" string=\"true\">v/｜DSML｜ parameter>\n")),
        block(invoke("<｜DSML｜ parameter name=\"a\" string=\"true\">v</｜DSML｜ parameter>")),
        std::string("\n\n<｜DSML｜ calls"), std::string("\n\n<｜DSML｜ calls>\n"),
        std::string("\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n</｜DSML｜ invoke"),
        (std::string("a｜DSML｜") += block(invoke(one)))})
    EXPECT_FALSE(parse_completion(text, ThinkingMode::chat).has_value()) << text;
}

TEST(CompletionParse, ErrorsAreOneLineWithTheByte) {
  const auto message = parse_completion("hm\n\n<｜DSML｜ calls>x", ThinkingMode::chat);
  ASSERT_FALSE(message.has_value());
  EXPECT_EQ(message.error().message, "completion, byte 21: expected \">\\n\"");
}

TEST(CompletionParse, AnEmptyBlockIsNoCall) {
  const auto message = parse_completion((std::string("a") += block("")), ThinkingMode::chat);
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(*message, (AssistantMessage{.content = "a", .reasoning_content = "", .tool_calls = {}}));
}

}  // namespace
}  // namespace fathom
