// tokenize, render and parse against the golden cases, through the program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"
#include "tests/cli/run_fathom.h"

namespace fathom {
namespace {

using testing::HasSubstr;

const std::string golden = FATHOM_SOURCE_DIR "/tests/golden/";
const std::string tiny = golden + "tiny/model";

Json read_json(const std::string& path) {
  const auto text = read_file(path, uint64_t{1} << 30);
  EXPECT_TRUE(text);
  auto json = parse_json(*text, path);
  EXPECT_TRUE(json) << (json ? "" : json.error().message);
  return std::move(*json);
}

/// Sends every request as a line and gives the answers.
std::vector<Json> answers(const std::vector<std::string>& arguments, const std::vector<Json>& requests) {
  std::string input;
  for (const Json& r : requests) input += r.dump() + "\n";
  const Finished run = run_fathom(arguments, input);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  std::vector<Json> out;
  std::string_view rest = run.out;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    EXPECT_NE(end, std::string_view::npos);
    auto line = parse_json(rest.substr(0, end), "answer");
    EXPECT_TRUE(line);
    out.push_back(std::move(*line));
    rest.remove_prefix(std::min(end, rest.size() - 1) + 1);
  }
  EXPECT_EQ(out.size(), requests.size());
  out.resize(requests.size());
  return out;
}

TEST(Tokenize, AgreesWithTheGoldenCases) {
  const Json cases = read_json(golden + "text/tokenize_tiny.json");
  std::vector<Json> requests;
  for (const Json& c : cases) {
    requests.push_back({{"text", c["text"]}});
    requests.push_back({{"ids", c["ids"]}});
    requests.push_back({{"ids", c["ids"]}, {"skip_special_tokens", true}});
  }
  const auto found = answers({"tokenize", "--model", tiny}, requests);
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(found[3 * i]["ids"], cases[i]["ids"]);
    EXPECT_EQ(found[3 * i]["tokens"].size(), cases[i]["ids"].size());
    EXPECT_EQ(found[3 * i + 1], (Json{{"text", cases[i]["decoded"]}}));
    EXPECT_EQ(found[3 * i + 2], (Json{{"text", cases[i]["skip"]}}));
  }
}

TEST(Tokenize, BadRequestsAreAnswered) {
  const auto found = answers({"tokenize", "--model", tiny}, {Json::object(),
                                                             {{"text", "a"}, {"ids", Json::array()}},
                                                             {{"text", 5}},
                                                             {{"ids", "x"}},
                                                             {{"ids", {-1}}},
                                                             {{"ids", {1e30}}},
                                                             {{"ids", {99999999}}},
                                                             {{"ids", {0}}, {"skip_special_tokens", 1}},
                                                             {{"text", "a"}}});
  for (size_t i = 0; i + 1 < found.size(); ++i) {
    EXPECT_TRUE(found[i].contains("error")) << found[i];
    EXPECT_EQ(found[i].size(), 1u);
  }
  EXPECT_TRUE(found.back().contains("ids"));
}

TEST(JsonLines, BrokenLinesAreAnsweredAndTheRestGoesOn) {
  const Finished run =
      run_fathom({"parse"}, "{\n\n[1]\n \xff\n{\"completion\": 5}\n" + std::string(3000, '['));
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(std::count(run.out.begin(), run.out.end(), '\n'), 5);
  EXPECT_THAT(run.out, HasSubstr("{\"error\":\"line 1"));
  EXPECT_THAT(run.out, HasSubstr("{\"error\":\"line 3: expected an object"));
  EXPECT_THAT(run.out, HasSubstr("completion: expected a string"));
}

TEST(Render, AgreesWithTheGoldenCases) {
  const Json cases = read_json(golden + "text/chat.json")["encode"];
  std::vector<Json> requests(cases.begin(), cases.end());
  for (Json& r : requests)
    for (const char* field : {"prompt", "images", "error", "name"}) r.erase(field);
  const auto found = answers({"render"}, requests);
  for (size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].contains("error"))
      EXPECT_TRUE(found[i].contains("error")) << cases[i]["name"];
    else
      EXPECT_EQ(found[i], (Json{{"prompt", cases[i]["prompt"]}, {"images", cases[i]["images"]}}))
          << cases[i]["name"];
  }
}

TEST(Render, TakesThePlaceholderAsTextWhenAsked) {
  const Json request = {{"messages", {{{"role", "user"}, {"content", "<｜deepseek_image｜>"}}}},
                        {"thinking_mode", "chat"}};
  EXPECT_TRUE(answers({"render"}, {request})[0].contains("error"));
  const Json found = answers({"render", "--allow-special-text"}, {request})[0];
  EXPECT_THAT(found["prompt"].get<std::string>(), HasSubstr("<｜deepseek_image｜>"));
  EXPECT_EQ(found["images"], Json::array());
}

TEST(Parse, AgreesWithTheGoldenCases) {
  const Json cases = read_json(golden + "text/chat.json")["parse"];
  std::vector<Json> requests;
  for (const Json& c : cases)
    requests.push_back({{"completion", c["completion"]}, {"thinking_mode", c["thinking_mode"]}});
  const auto found = answers({"parse"}, requests);
  for (size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].contains("error"))
      EXPECT_TRUE(found[i].contains("error")) << cases[i]["name"];
    else
      EXPECT_EQ(found[i], (Json{{"message", cases[i]["message"]}})) << cases[i]["name"];
  }
}

}  // namespace
}  // namespace fathom
