#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace fathom {
namespace {

using testing::HasSubstr;

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
  const auto json = parse_json(text, "it.json", limits);
  return json ? "accepted" : json.error().message;
}

TEST(ParseJson, KeepsValuesAndTheOrderOfKeys) {
  const auto json =
      parse_json(R"({"z": [1, -2, 0.5, 1e-20, true, null], "a": {"é": "\u20ac\n"}, "m": {}})", "x");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(json->dump(), "{\"z\":[1,-2,0.5,1e-20,true,null],\"a\":{\"é\":\"€\\n\"},\"m\":{}}");
  EXPECT_EQ((*json)["z"][3].get<double>(), 1e-20);
}

TEST(ParseJson, KeepsIntegersPastDoubles) {
  const auto json = parse_json("[9007199254740993, 18446744073709551615, -9223372036854775808]", "x");
  ASSERT_TRUE(json);
  EXPECT_EQ((*json)[0].get<int64_t>(), 9007199254740993);
  EXPECT_EQ((*json)[1].get<uint64_t>(), UINT64_MAX);
  EXPECT_EQ((*json)[2].get<int64_t>(), INT64_MIN);
}

TEST(ParseJson, ParsesScalarsAlone) {
  for (const char* text : {"1", "\"a\"", "null", " true "}) EXPECT_EQ(error_of(text), "accepted") << text;
}

TEST(ParseJson, NamesTheInputAndThePlace) {
  const std::string message = error_of("{\"a\":\n 1,}");
  EXPECT_THAT(message, HasSubstr("it.json"));
  EXPECT_THAT(message, HasSubstr("line 2"));
}

TEST(ParseJson, RefusesWhatIsNotJson) {
  for (const char* text : {"", " ", "{", "[1,]", "{\"a\"}", "{a:1}", "nul", "01", "1 2", "{} x", "\"\x01\"",
                           "[1e999]", "'a'", "// c\n1", "NaN", "\"\\ud800\"", "\"\xff\"", "\"\xc0\x80\""})
    EXPECT_NE(error_of(text), "accepted") << text;
}

TEST(ParseJson, RefusesAZeroByteInsteadOfEndingThere) {
  EXPECT_NE(error_of(std::string_view("{}\0{}", 5)), "accepted");
  EXPECT_NE(error_of(std::string_view("{}\0", 3)), "accepted");
  EXPECT_NE(error_of(std::string_view("\"\0\"", 3)), "accepted");
}

TEST(ParseJson, RefusesDuplicateKeysAtAnyDepth) {
  EXPECT_THAT(error_of(R"({"a":1,"b":2,"a":3})"), HasSubstr("duplicate key \"a\""));
  EXPECT_THAT(error_of(R"([{"x":{"k":1,"\u006b":2}}])"), HasSubstr("duplicate key \"k\""));
  EXPECT_EQ(error_of(R"({"a":{"a":1},"b":{"a":1}})"), "accepted");
}

TEST(ParseJson, BoundsNesting) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(error_of(nested(64)), "accepted");
  EXPECT_THAT(error_of(nested(65)), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(error_of(R"([[{"a":[]}]])", {.max_depth = 3}), HasSubstr("nested deeper than 3"));
  // Refused where it stands: no stack and no memory for the rest.
  EXPECT_THAT(error_of(std::string(50'000'000, '[')), HasSubstr("nested deeper"));
}

TEST(ParseJson, TakesLinearTimeInTheNumberOfKeys) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) text += (i ? ",\"" : "\"") + std::to_string(i) + "\":0";
  text += "}";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(error_of(text), "accepted");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

}  // namespace
}  // namespace fathom
