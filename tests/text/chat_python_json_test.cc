// JSON text against what Python's json.dumps(json.loads(text), ensure_ascii=False) gives.
#include <gtest/gtest.h>

#include "text/python_json.h"

namespace fathom {
namespace {

std::string round_trip(std::string_view text) {
  const auto json = parse_json(text, "test");
  return json ? python_json(*json) : "error: " + json.error().message;
}

TEST(PythonJson, WritesFloatsAsPythonDoes) {
  const std::pair<const char*, const char*> cases[] = {
      {"0.0", "0.0"},
      {"-0.0", "-0.0"},
      {"1.0", "1.0"},
      {"1e16", "1e+16"},
      {"9999999999999998.0", "9999999999999998.0"},
      {"1e15", "1000000000000000.0"},
      {"123456789012345680.0", "1.2345678901234568e+17"},
      {"0.0001", "0.0001"},
      {"0.00001", "1e-05"},
      {"0.000123", "0.000123"},
      {"0.0000123", "1.23e-05"},
      {"1e-7", "1e-07"},
      {"-1.5E+3", "-1500.0"},
      {"5e-324", "5e-324"},
      {"1.7976931348623157e308", "1.7976931348623157e+308"},
      {"1e100", "1e+100"},
      {"0.1", "0.1"},
      {"3.141592653589793", "3.141592653589793"},
      {"2.5", "2.5"},
      {"100.25", "100.25"},
      {"1e-400", "0.0"},
      {"5e22", "5e+22"},
      {"9007199254740993.0", "9007199254740992.0"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(round_trip(text), expected) << text;
}

TEST(PythonJson, KeepsIntegersDigitForDigit) {
  for (const char* text : {"0", "-1", "9223372036854775807", "-9223372036854775808", "18446744073709551615",
                           "18446744073709551616", "-9223372036854775809",
                           "123456789012345678901234567890123456789012345678901234567890"})
    EXPECT_EQ(round_trip(text), text);
  EXPECT_EQ(round_trip("-0"), "0");
  EXPECT_EQ(round_trip("[18446744073709551616,{\"a\":-18446744073709551616}]"),
            "[18446744073709551616, {\"a\": -18446744073709551616}]");
}

TEST(PythonJson, WritesStructuresOnOneLineInOrder) {
  EXPECT_EQ(round_trip(" { \"z\":1,\n\"a\":[ ],\"m\":{},\"b\":[true,false,null,\"x\"] } "),
            R"({"z": 1, "a": [], "m": {}, "b": [true, false, null, "x"]})");
}

TEST(PythonJson, EscapesOnlyWhatItMust) {
  EXPECT_EQ(round_trip(R"("\"\\\/\b\f\n\r\t\u0001\u001f\u007f\u00e9\ud83d\ude42\u2028")"),
            "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7F\u00e9\U0001F642\u2028\"");
  EXPECT_EQ(round_trip(R"({"\u043a\n":"x"})"), "{\"\u043a\\n\": \"x\"}");
}

TEST(JsonLimits, DuplicateKeys) {
  EXPECT_FALSE(parse_json(R"({"a":1,"a":2})", "x").has_value());
  const JsonLimits last{.duplicate_keys = DuplicateKeys::last_wins};
  const auto json = parse_json(R"({"a":{"k":1},"b":[1],"a":{"c":3,"c":[4]},"b":null})", "x", last);
  ASSERT_TRUE(json.has_value());
  EXPECT_EQ(json->dump(), R"({"a":{"c":[4]},"b":null})");
}

}  // namespace
}  // namespace fathom
