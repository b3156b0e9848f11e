// The streaming parser: the same for every split, equal to the strict parser, and sensible where that
// refuses.
#include "text/completion_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>

#include "tests/text/chat_golden.h"
#include "text/chat_tokens.h"
#include "text/json_scanner.h"

namespace fathom {
namespace {

using test::chat_golden;
using test::mode_of;
using Kind = CompletionEvent::Kind;
using Events = std::vector<CompletionEvent>;
constexpr auto kChat = ThinkingMode::chat;
constexpr auto kThinking = ThinkingMode::thinking;
const std::string kEos(chat_tokens::kEnd);

const std::string kOpen = "\n\n<｜DSML｜ calls>\n";
const std::string kClose = "</｜DSML｜ calls>";
std::string invoke(const std::string& name, const std::string& inside) {
  return "<｜DSML｜ invoke name=\"" + name + "\">\n" + inside + "</｜DSML｜ invoke>\n";
}
std::string parameter(const std::string& name, const std::string& kind, const std::string& value) {
  return "<｜DSML｜ parameter name=\"" + name + "\" string=\"" + kind + "\">" + value +
         "</｜DSML｜ parameter>\n";
}

struct Outcome {
  AssistantMessage message;
  Events events;
};

void take(Outcome& out, Events events) {
  for (CompletionEvent& event : events) {
    const bool is_call = event.kind != Kind::reasoning && event.kind != Kind::content;
    if (event.kind == Kind::call_begin) {
      EXPECT_EQ(event.call_index, static_cast<int>(out.message.tool_calls.size()));
    }
    if (!is_call) {
      EXPECT_EQ(event.call_index, -1);
    }
    apply(event, out.message);
    if (is_call) {
      EXPECT_EQ(event.call_index, static_cast<int>(out.message.tool_calls.size()) - 1);
    }
    if (event.kind != Kind::call_end && event.kind != Kind::call_begin) {
      EXPECT_FALSE(event.text.empty());
    }
    EXPECT_TRUE(is_valid_utf8(event.text));
    out.events.push_back(std::move(event));
  }
}

// Arguments of a finished call are an object; of an unfinished one, the beginning of an object and not
// nothing.
void check_arguments(const AssistantMessage& message) {
  for (const ToolCall& call : message.tool_calls) {
    JsonScanner scanner(64);
    EXPECT_EQ(scanner.take(call.arguments), call.arguments.size()) << call.arguments;
    EXPECT_EQ(scanner.is_whole(), call.finished) << call.arguments;
    EXPECT_THAT(call.arguments, ::testing::StartsWith("{"));
  }
}

Outcome run(std::string_view text, ThinkingMode mode, std::vector<size_t> cuts = {}) {
  CompletionStream stream(mode);
  Outcome out;
  size_t begin = 0;
  cuts.push_back(text.size());
  for (const size_t end : cuts) {
    take(out, stream.push(text.substr(begin, end - begin)));
    begin = end;
  }
  take(out, stream.finish());
  return out;
}

Outcome run_by_byte(std::string_view text, ThinkingMode mode) {
  std::vector<size_t> cuts;
  for (size_t i = 1; i < text.size(); ++i) cuts.push_back(i);
  return run(text, mode, cuts);
}

// Runs a text whole and in many splits, which must agree; gives the message.
AssistantMessage parse(const std::string& text, ThinkingMode mode, size_t max_pairs = 120) {
  const AssistantMessage whole = run(text, mode).message;
  check_arguments(whole);
  EXPECT_EQ(run_by_byte(text, mode).message, whole) << text;
  for (size_t i = 0; i <= text.size(); ++i) {
    EXPECT_EQ(run(text, mode, {i}).message, whole) << text << "\nsplit at " << i;
    if (text.size() > max_pairs) continue;
    for (size_t j = i; j <= text.size(); ++j)
      EXPECT_EQ(run(text, mode, {i, j}).message, whole) << text << "\nsplit at " << i << " and " << j;
  }
  return whole;
}

AssistantMessage content(std::string text) {
  return {.content = std::move(text), .reasoning_content = "", .tool_calls = {}};
}

TEST(CompletionStream, GivesTheStrictMessageForEverySplit) {
  const Json golden = chat_golden();
  for (const Json& c : golden["parse"]) {
    SCOPED_TRACE(c["name"].get<std::string>());
    const auto text = c["completion"].get<std::string>();
    const auto strict = parse_completion(text, mode_of(c));
    const AssistantMessage message = parse(text, mode_of(c), 160);
    if (strict) {
      EXPECT_EQ(message, *strict);
    }
  }
}

TEST(CompletionStream, StreamsAnswers) {
  CompletionStream stream(kThinking);
  EXPECT_EQ(stream.push("so"), (Events{{Kind::reasoning, -1, "so"}}));
  EXPECT_EQ(stream.push(" a < b</th"), (Events{{Kind::reasoning, -1, " a < b"}}));
  EXPECT_EQ(stream.push("ink>Yes\n"), (Events{{Kind::content, -1, "Yes"}}));
  EXPECT_EQ(stream.push("\n<"), (Events{}));
  EXPECT_EQ(stream.push("b>"), (Events{{Kind::content, -1, "\n\n<b>"}}));
  EXPECT_EQ(stream.push("\xE4\xBD"), (Events{}));
  EXPECT_EQ(stream.push("\xA0<｜end▁of▁sentence"), (Events{{Kind::content, -1, "你"}}));
  EXPECT_EQ(stream.push("｜>"), (Events{}));
  EXPECT_EQ(stream.finish(), (Events{}));
}

TEST(CompletionStream, StreamsCalls) {
  CompletionStream stream(kChat);
  EXPECT_EQ(stream.push("Hm" + kOpen + "<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"k"),
            (Events{{Kind::content, -1, "Hm"}}));
  EXPECT_EQ(stream.push("\" string=\"true\">a\"b"),
            (Events{{Kind::call_begin, 0, "f"}, {Kind::call_arguments, 0, "{\"k\": \"a\\\"b"}}));
  EXPECT_EQ(stream.push("\n</｜DSML｜ para"), (Events{{Kind::call_arguments, 0, "\\n"}}));
  EXPECT_EQ(stream.push("meter>\n"), (Events{{Kind::call_arguments, 0, "\""}}));
  EXPECT_EQ(stream.push("<｜DSML｜ parameter name=\"n\" string=\"false\">12"),
            (Events{{Kind::call_arguments, 0, ", \"n\": "}}));  // 12 may become 12x
  EXPECT_EQ(stream.push("</｜DSML｜ parameter>\n<｜DSML｜ parameter name=\"o\" string=\"false\"> [1, {"),
            (Events{{Kind::call_arguments, 0, "12, \"o\":  [1, {"}}));
  EXPECT_EQ(stream.push("}]</｜DSML｜ parameter>\n</｜DSML｜ invoke"),
            (Events{{Kind::call_arguments, 0, "}]"}}));
  EXPECT_EQ(stream.push(">\n<｜DSML｜ invoke name=\"g\">\n\n</｜DSML｜ invoke>"),
            (Events{{Kind::call_arguments, 0, "}"},
                    {Kind::call_end, 0, ""},
                    {Kind::call_begin, 1, "g"},
                    {Kind::call_arguments, 1, "{}"},
                    {Kind::call_end, 1, ""}}));
  EXPECT_EQ(stream.push("\n" + kClose + kEos), (Events{}));
  EXPECT_EQ(stream.finish(), (Events{}));
}

TEST(CompletionStream, ALongArgumentArrivesInManyPieces) {
  for (const bool is_text : {true, false}) {
    std::string value;
    while (value.size() < 4096) value += "line \"" + std::to_string(value.size()) + "\" ü\n";
    if (!is_text) {
      std::string array = "[";
      while (array.size() < 4096) array += "{\"n\": " + std::to_string(array.size()) + "}, ";
      value = array + "null]";
    }
    const std::string text =
        kOpen + invoke("write", parameter("body", is_text ? "true" : "false", value)) + kClose + kEos;
    const auto strict = parse_completion(text, kChat);
    ASSERT_TRUE(strict.has_value()) << strict.error().message;
    CompletionStream stream(kChat);
    AssistantMessage message;
    int deltas = 0;
    size_t longest = 0;
    for (size_t i = 0; i < text.size(); i += 16) {
      for (const CompletionEvent& event : stream.push(std::string_view(text).substr(i, 16))) {
        apply(event, message);
        if (event.kind != Kind::call_arguments) continue;
        ++deltas;
        longest = std::max(longest, event.text.size());
        JsonScanner scanner(64);
        ASSERT_EQ(scanner.take(message.tool_calls[0].arguments), message.tool_calls[0].arguments.size());
      }
    }
    for (const CompletionEvent& event : stream.finish()) apply(event, message);
    EXPECT_EQ(message, *strict);
    EXPECT_GT(deltas, 200);
    EXPECT_LT(longest, 64u);
  }
}

TEST(CompletionStream, ABlockInsideThinkingEndsIt) {
  const AssistantMessage message =
      parse("plan" + kOpen + invoke("f", parameter("a", "true", "1")) + kClose + "after" + kEos, kThinking);
  EXPECT_EQ(message.reasoning_content, "plan");
  EXPECT_EQ(message.content, "after");
  EXPECT_EQ(message.tool_calls, (std::vector<ToolCall>{{"f", "{\"a\": \"1\"}"}}));
}

TEST(CompletionStream, ABrokenBlockInsideThinkingIsThinking) {
  const AssistantMessage message = parse("plan" + kOpen + "oops</think>ok" + kEos, kThinking);
  EXPECT_EQ(message.reasoning_content, "plan" + kOpen + "oops");
  EXPECT_EQ(message.content, "ok");
}

TEST(CompletionStream, ReasoningWithoutItsEnd) {
  const AssistantMessage message = parse("abc" + kEos, kThinking);
  EXPECT_EQ(message, (AssistantMessage{.content = "", .reasoning_content = "abc", .tool_calls = {}}));
}

TEST(CompletionStream, EndOfSentenceIsNeverContent) {
  EXPECT_EQ(parse("a" + kEos + "b" + kEos + kEos, kChat), content("ab"));
  EXPECT_EQ(parse("a<｜end▁of▁sentence", kChat), content("a<｜end▁of▁sentence"));
  // Each is left out once; what comes to stand side by side is plain text.
  EXPECT_EQ(parse("<｜end▁of▁" + kEos + "sentence｜>", kChat), content(kEos));
}

TEST(CompletionStream, OtherSpecialTextsAreContent) {
  EXPECT_EQ(parse("a<think>b</think>c｜DSML｜\n<｜DSML｜ calls>" + kEos, kChat),
            content("a<think>b</think>c｜DSML｜\n<｜DSML｜ calls>"));
}

TEST(CompletionStream, BrokenBlocksBecomePlainText) {
  const std::string one = parameter("a", "true", "v");
  for (const std::string& block :
       {std::string("\n\n<｜DSML｜ callsX"), kOpen + "text", kOpen + "<｜DSML｜ invoke nam=\"f\">\n" + one,
        kOpen + invoke("f", "\"x\"\n") + kClose, kOpen + invoke("f", "[1]\n") + kClose,
        kOpen + invoke("f", "null\n") + kClose, kOpen + invoke("f", "5") + kClose,
        kOpen + invoke("f", "{\"a\": 1}\n") + kClose, kOpen + invoke("f", "<b c=\"d\">\n") + kClose,
        kOpen + invoke("f", "<｜DSML｜ parameter nam=\"a\">v</｜DSML｜ parameter>\n") + kClose,
        kOpen + invoke("f", parameter("a", "maybe", "v")) + kClose,
        kOpen + "<｜DSML｜ invoke name=\"f\">\n</｜DSML｜ invoke x>\n" + kClose,
        kOpen + "<｜DSML｜ invoke name=\"f\">\n"}) {
    EXPECT_EQ(parse("t" + block + kEos, kChat, 100), content("t" + block));
  }
}

TEST(CompletionStream, ABlockAfterABrokenOneIsRead) {
  const std::string good = kOpen + invoke("g", "\n") + kClose;
  const AssistantMessage message = parse(kOpen + "<｜DSML｜ invoke name=\"f\n" + good + kEos, kChat);
  EXPECT_EQ(message.content, kOpen + "<｜DSML｜ invoke name=\"f\n");
  EXPECT_EQ(message.tool_calls, (std::vector<ToolCall>{{"g", "{}"}}));
}

TEST(CompletionStream, ACallThatBreaksStaysUnfinished) {
  const std::string one = parameter("a", "true", "v");
  const AssistantMessage junk = parse(kOpen + invoke("f", one + "junk") + kClose + kEos, kChat);
  EXPECT_EQ(junk.tool_calls, (std::vector<ToolCall>{{"f", "{\"a\": \"v\"", false}}));
  EXPECT_EQ(junk.content, "\njunk</｜DSML｜ invoke>\n" + kClose);

  const AssistantMessage twice = parse(kOpen + invoke("f", one + one) + kClose + kEos, kChat);
  EXPECT_EQ(twice.tool_calls, (std::vector<ToolCall>{{"f", "{\"a\": \"v\"", false}}));
  EXPECT_EQ(twice.content, "\n" + one + "</｜DSML｜ invoke>\n" + kClose);

  const AssistantMessage bad_json =
      parse(kOpen + invoke("f", parameter("a", "false", "[1, x]")) + kClose + kEos, kChat);
  EXPECT_EQ(bad_json.tool_calls, (std::vector<ToolCall>{{"f", "{\"a\": [1, ", false}}));
  EXPECT_EQ(bad_json.content, "x]</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n" + kClose);

  // A value cannot close the object around it.
  const AssistantMessage closing =
      parse(kOpen + invoke("f", parameter("a", "false", "{}}")) + kClose + kEos, kChat);
  EXPECT_EQ(closing.tool_calls, (std::vector<ToolCall>{{"f", "{\"a\": {}", false}}));

  const AssistantMessage next =
      parse(kOpen + invoke("f", one + "junk") + kClose + kOpen + invoke("g", one) + kClose + kEos, kChat);
  EXPECT_EQ(next.tool_calls, (std::vector<ToolCall>{{"f", "{\"a\": \"v\"", false}, {"g", "{\"a\": \"v\"}"}}));
}

TEST(CompletionStream, ABareWordIsAString) {
  for (const char* word : {"Oslo", "True", "12x", "tru", "-", "1}", " 'a'", "", " ", "1 2", "nullx"}) {
    const AssistantMessage message =
        parse(kOpen + invoke("f", parameter("a", "false", word)) + kClose + kEos, kChat);
    EXPECT_EQ(message.tool_calls, (std::vector<ToolCall>{{"f", fmt::format("{{\"a\": \"{}\"}}", word)}}));
    EXPECT_EQ(message.content, "");
  }
}

TEST(CompletionStream, SpacesBetweenTagsMayDiffer) {
  const AssistantMessage message = parse(
      "\n\n<｜DSML｜ calls><｜DSML｜ invoke name=\"f\"> <｜DSML｜ parameter name=\"a\" string=\"true\">v"
      "</｜DSML｜ parameter></｜DSML｜ invoke>\n\n" +
          kClose + kEos,
      kChat);
  EXPECT_EQ(message.tool_calls, (std::vector<ToolCall>{{"f", "{\"a\": \"v\"}"}}));
  EXPECT_EQ(message.content, "");
}

TEST(CompletionStream, EndTextInsideAValueIsTextUnlessLast) {
  const std::string half =
      kOpen + "<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"a\" string=\"true\">x" + kEos;
  EXPECT_EQ(parse(half, kChat).tool_calls, (std::vector<ToolCall>{{"f", "{\"a\": \"x", false}}));
  const std::string whole = half + "</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n" + kClose + kEos;
  EXPECT_EQ(parse(whole, kChat), *parse_completion(whole, kChat));
  EXPECT_EQ(parse(whole, kChat).tool_calls, (std::vector<ToolCall>{{"f", "{\"a\": \"x" + kEos + "\"}"}}));
}

// A completion cut anywhere shows no piece of a tag, loses no text and finishes no call too early.
TEST(CompletionStream, CutAnywhere) {
  const std::string before = "Well.";
  const std::string calls =
      invoke("get", parameter("city", "true", "O < \"s\"") + parameter("n", "false", "[1, {\"a\": 2}]")) +
      invoke("noargs", "\n");
  const std::string text = before + kOpen + calls + kClose + kEos;
  const AssistantMessage whole = run(text, kChat).message;
  for (size_t end = 0; end <= text.size(); ++end) {
    const std::string cut = text.substr(0, end);
    SCOPED_TRACE(cut);
    const AssistantMessage message = run(cut, kChat).message;
    EXPECT_EQ(run_by_byte(cut, kChat).message, message);
    check_arguments(message);
    EXPECT_EQ(message.content.find(kEos), std::string::npos);
    EXPECT_EQ(message.content.find("DSML"), std::string::npos);
    if (end >= before.size()) {
      EXPECT_THAT(message.content, ::testing::StartsWith(before));
    }
    ASSERT_LE(message.tool_calls.size(), whole.tool_calls.size());
    for (size_t i = 0; i < message.tool_calls.size(); ++i) {
      const ToolCall& call = message.tool_calls[i];
      EXPECT_EQ(call.name, whole.tool_calls[i].name);
      if (call.finished) {
        EXPECT_EQ(call, whole.tool_calls[i]);
      }
      EXPECT_EQ(call.arguments.find("DSML"), std::string::npos);
    }
  }
}

TEST(CompletionStream, ACutCallIsReportedUnfinishedAndNeverEmpty) {
  const std::string head = "a" + kOpen + "<｜DSML｜ invoke name=\"f\">";
  for (const char* tail :
       {"", "\n", "\n<｜DSML｜ par", "\n<｜DSML｜ parameter na", "\n\n</｜DSML｜ invoke"}) {
    const AssistantMessage message = parse(head + tail, kChat);
    EXPECT_EQ(message.content, "a");
    EXPECT_EQ(message.tool_calls, (std::vector<ToolCall>{{"f", "{", false}}));
  }
}

TEST(CompletionStream, InvalidUtf8BecomesReplacementCharacters) {
  EXPECT_EQ(parse("a\xFF\xE4\xBD"
                  "b\xF0\x9F\x99",
                  kChat),
            content("a\uFFFD\uFFFDb"));
  EXPECT_EQ(parse("\xED\xA0\x80\xC0\xAF", kChat), content("\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD"));
}

// Any mixture of pieces of tags: every split agrees, and so does the strict parser where it accepts.
TEST(CompletionStream, RandomMixtures) {
  const std::string pieces[] = {"\n\n<｜DSML｜ calls",
                                ">\n",
                                "<｜DSML｜ invoke name=\"",
                                "f",
                                "\">\n",
                                "<｜DSML｜ parameter name=\"",
                                "k",
                                "\" string=\"true\">",
                                "\" string=\"false\">",
                                "v",
                                "</｜DSML｜ parameter",
                                "</｜DSML｜ invoke",
                                "</｜DSML｜ calls>",
                                kEos,
                                "</think>",
                                "<think>",
                                "\n",
                                "<",
                                "｜DSML｜",
                                "[1",
                                "]",
                                "12",
                                "\"",
                                "ü",
                                ">",
                                "/",
                                " ",
                                "{",
                                "}",
                                "\xE4",
                                "<｜"};
  std::mt19937 random(7);
  int accepted = 0, calls = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string text;
    // Mostly follow the grammar, so that deep states are reached.
    const bool thinking = random() % 4 == 0;
    const auto noise = [&] {
      while (random() % 24 == 0) text += pieces[random() % std::size(pieces)];
    };
    const auto add = [&](const std::string& piece) {
      noise();
      if (random() % 40 != 0) text += piece;
    };
    if (thinking) add("r</think>");
    add("c");
    if (random() % 8 != 0) {
      add(kOpen);
      for (int c = static_cast<int>(random() % 3); c >= 0; --c) {
        add("<｜DSML｜ invoke name=\"f\">\n");
        const int num = static_cast<int>(random() % 3);
        for (int p = 0; p < num; ++p) {
          add("<｜DSML｜ parameter name=\"");
          add(std::string(1, static_cast<char>('a' + p)));
          add(random() % 2 ? "\" string=\"true\">" : "\" string=\"false\">");
          add("[1, \"x\"]");
          add("</｜DSML｜ parameter>\n");
        }
        add("</｜DSML｜ invoke>\n");
      }
      add(kClose);
    }
    if (random() % 6 != 0) add(kEos);
    const ThinkingMode mode = thinking ? kThinking : kChat;
    const AssistantMessage whole = run(text, mode).message;
    check_arguments(whole);
    ASSERT_EQ((whole.content + whole.reasoning_content).find(kEos), std::string::npos) << text;
    ASSERT_EQ(run_by_byte(text, mode).message, whole) << text;
    for (int k = 0; k < 4; ++k) {
      std::vector<size_t> cuts = {random() % (text.size() + 1), random() % (text.size() + 1)};
      std::sort(cuts.begin(), cuts.end());
      ASSERT_EQ(run(text, mode, cuts).message, whole) << text;
    }
    if (const auto strict = parse_completion(text, mode)) {
      ++accepted;
      ASSERT_EQ(whole, *strict) << text;
    }
    calls += static_cast<int>(whole.tool_calls.size());
  }
  EXPECT_GT(accepted, 500);
  EXPECT_GT(calls, 2000);
}

// Hostile texts of half a megabyte, in one piece and in small ones: far below a second each where linear,
// minutes where not.
TEST(CompletionStream, TakesLinearTime) {
  const std::string in_call = kOpen + "<｜DSML｜ invoke name=\"f\">\n";
  const std::string in_value = in_call + "<｜DSML｜ parameter name=\"a\" string=\"true\">";
  const std::string in_json = in_call + "<｜DSML｜ parameter name=\"a\" string=\"false\">";
  const std::pair<std::string, std::string> texts[] = {
      {"", "<"},
      {"", "\n"},
      {"", "\n\n<｜DSML｜"},
      {"", "\n\n<｜DSML｜ calls>"},
      {"", kOpen + "<｜DSML｜ invoke name=\""},
      {"", in_call},
      {"", in_value},
      {"", kEos},
      {kOpen, "\n"},
      {kOpen + "<｜DSML｜ invoke", "a"},
      {kOpen + "<｜DSML｜ invoke name=\"", "<"},
      {in_call, "\n"},
      {in_call + "<｜DSML｜ parameter name=\"", "\" string=\""},
      {in_call + "<｜DSML｜ parameter name=\"", "\n\n<"},
      {in_value, "</｜DSML｜ para"},
      {in_value, kEos},
      {in_json, "["},
      {in_json, "1"},
      {in_json, " "},
      {in_json, "\"\\"},
      {kOpen, "<｜DSML｜ invoke name=\"f\">\n\n</｜DSML｜ invoke>\n"},
      {in_call, parameter("a", "true", "")},
  };
  for (const auto& [prefix, repeated] : texts) {
    std::string text = prefix;
    while (text.size() < (1u << 19)) text += repeated;
    for (const size_t piece : {text.size(), size_t{7}}) {
      const auto start = std::chrono::steady_clock::now();
      CompletionStream stream(kThinking);
      for (size_t i = 0; i < text.size(); i += piece) stream.push(std::string_view(text).substr(i, piece));
      stream.finish();
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      EXPECT_LT(taken.count(), 5.0) << prefix << repeated << " in pieces of " << piece;
    }
    (void)parse_completion(text + kEos, kChat);
  }
  std::string many = in_call;
  for (int i = 0; i < 10000; ++i) many += parameter(fmt::format("p{}", i), "false", "[1]");
  many += "</｜DSML｜ invoke>\n" + kClose + kEos;
  const auto strict = parse_completion(many, kChat);
  ASSERT_TRUE(strict.has_value());
  EXPECT_EQ(run(many, kChat).message, *strict);
}

}  // namespace
}  // namespace fathom
