// Each feature of tokenizer.json on a tokenizer small enough to work out by hand.

#include <gtest/gtest.h>

#include "tests/text/small_tokenizer.h"
#include "text/regex_dialect.h"
#include "text/stream_decoder.h"

namespace fathom::testing {
namespace {

using Ids = std::vector<int32_t>;

TEST(TokenizerFeatures, MergesInOrder) {
  const Tokenizer tokenizer = build(small_tokenizer());
  EXPECT_EQ(ids(tokenizer, ""), Ids{});
  EXPECT_EQ(ids(tokenizer, "abc"), Ids{abc});
  EXPECT_EQ(ids(tokenizer, "bcab"), (Ids{bc, ab}));
  EXPECT_EQ(ids(tokenizer, " abc"), (Ids{' ', abc}));  // "a b" comes before "Ġ a"
  EXPECT_EQ(ids(tokenizer, " ac"), (Ids{space_a, 'c'}));
  EXPECT_EQ(ids(tokenizer, "aabb"), (Ids{'a', ab, 'b'}));
  EXPECT_EQ(ids(tokenizer, "a1b"), (Ids{'a', '1', 'b'}));
}

TEST(TokenizerFeatures, BothSpellingsOfMerges) {
  Json json = small_tokenizer();
  json["model"]["merges"] = Json::array({{"a", "b"}, "ab c", {"b", "c"}, {"Ġ", "a"}});
  EXPECT_EQ(ids(build(json), "abc bc"), (Ids{abc, ' ', bc}));
}

// "bc" may come from b + c (rank 1) or stand in the turn of another pair with the same result.
TEST(TokenizerFeatures, EqualResultsMergeInTheEarlierTurn) {
  Json json = small_tokenizer();
  json["model"]["vocab"]["aab"] = small_size;
  json["model"]["vocab"]["aa"] = small_size + 1;
  json["model"]["merges"] = {"a ab", "a a", "a b", "aa b"};
  EXPECT_EQ(ids(build(json), "aab"), Ids{small_size});
  EXPECT_EQ(ids(build(json), "aaab"), (Ids{small_size + 1, ab}));
}

TEST(TokenizerFeatures, IgnoreMerges) {
  Json json = small_tokenizer();
  json["model"]["vocab"]["cba"] = small_size;  // no merge makes it
  json["model"]["vocab"]["cbaa"] = small_size + 1;
  json["added_tokens"].push_back(added_token(small_size + 1, "cbaa"));
  EXPECT_EQ(ids(build(json), "cba"), (Ids{'c', 'b', 'a'}));
  json["model"]["ignore_merges"] = true;
  const Tokenizer tokenizer = build(json);
  EXPECT_EQ(ids(tokenizer, "cba cba"), (Ids{small_size, ' ', 'c', 'b', 'a'}));
  EXPECT_EQ(ids(tokenizer, "cbaa"), Ids{small_size + 1});
  EXPECT_EQ(ids(tokenizer, {{"cbaa", false}}), (Ids{'c', 'b', 'a', 'a'}));
}

TEST(TokenizerFeatures, SplitStepsInSequence) {
  const Tokenizer tokenizer = build(small_tokenizer());
  // Digits are cut first, so the letters around them do not meet; looking ahead stops at the piece's end.
  EXPECT_EQ(ids(tokenizer, "a 1 a"), (Ids{'a', ' ', '1', space_a}));
  EXPECT_EQ(ids(tokenizer, "  a"), (Ids{' ', space_a}));
}

TEST(TokenizerFeatures, AddedTokensLeftmostLongest) {
  Json json = small_tokenizer();
  json["added_tokens"] = Json::array(
      {added_token(260, "<x>"), added_token(261, "<x>y"), added_token(262, "x>yz"), added_token(263, "中")});
  const Tokenizer tokenizer = build(json);
  EXPECT_EQ(ids(tokenizer, "<x>yz"), (Ids{261, 'z'}));
  EXPECT_EQ(ids(tokenizer, "x>yz<x>x>yz"), (Ids{262, 260, 262}));
  EXPECT_EQ(ids(tokenizer, "a中b"), (Ids{'a', 263, 'b'}));
  EXPECT_EQ(ids(tokenizer, "<x"), (Ids{'<', 'x'}));
}

TEST(TokenizerFeatures, NormalizedAddedTokensComeSecond) {
  Json json = small_tokenizer();
  json["added_tokens"] = Json::array({added_token(260, "<x><y>"), added_token(261, "<y>")});
  json["added_tokens"][0]["normalized"] = true;
  const Tokenizer tokenizer = build(json);
  EXPECT_EQ(ids(tokenizer, "<x><y>"), (Ids{'<', 'x', '>', 261}));
  EXPECT_EQ(ids(tokenizer, {{"<x><y", true}, {">", false}}), (Ids{'<', 'x', '>', '<', 'y', '>'}));
}

TEST(TokenizerFeatures, SingleWord) {
  Json json = small_tokenizer();
  json["added_tokens"] = Json::array({added_token(260, "<x>")});
  json["added_tokens"][0]["single_word"] = true;
  const Tokenizer tokenizer = build(json);
  EXPECT_EQ(ids(tokenizer, "<x>"), Ids{260});
  EXPECT_EQ(ids(tokenizer, " <x>!"), (Ids{' ', 260, '!'}));
  for (const std::string text : {"a<x>", "<x>a", "é<x>", "<x>_", "<x>9", "<x>\u0301"})
    EXPECT_EQ(ids(tokenizer, text).size(), text.size()) << text;
  EXPECT_EQ(ids(tokenizer, "a<x> <x>"), (Ids{'a', '<', 'x', '>', ' ', 260}));
}

TEST(TokenizerFeatures, StripsWhiteSpace) {
  Json json = small_tokenizer();
  json["added_tokens"] = Json::array({added_token(260, "<l>"), added_token(261, "<r>")});
  json["added_tokens"][0]["lstrip"] = true;
  json["added_tokens"][1]["rstrip"] = true;
  const Tokenizer tokenizer = build(json);
  EXPECT_EQ(ids(tokenizer, "a \t\u3000<l> b"), (Ids{'a', 260, ' ', 'b'}));
  EXPECT_EQ(ids(tokenizer, "a <r>\n \u0085b"), (Ids{'a', ' ', 261, 'b'}));
  EXPECT_EQ(ids(tokenizer, "<r>  <l>  "), (Ids{261, 260, ' ', ' '}));
  EXPECT_EQ(ids(tokenizer, {{"a ", false}, {"<l>", true}}), (Ids{'a', 260}));
  std::string spaces(100'000, ' ');
  EXPECT_EQ(ids(tokenizer, "<r>" + spaces + "<r>" + spaces), (Ids{261, 261}));
}

TEST(TokenizerFeatures, TrustedPartsOfATokenCount) {
  Json json = small_tokenizer();
  json["added_tokens"] = Json::array({added_token(260, "<x>"), added_token(261, "<x>y")});
  const Tokenizer tokenizer = build(json);
  EXPECT_EQ(ids(tokenizer, {{"<x>", true}, {"y", false}}), (Ids{260, 'y'}));
  EXPECT_EQ(ids(tokenizer, {{"<x>", true}, {"", false}, {"y", true}}), Ids{261});
  EXPECT_EQ(ids(tokenizer, {{"<", true}, {"x", true}, {">", true}}), Ids{260});
  EXPECT_EQ(ids(tokenizer, {{"<x>", false}, {"<x>", true}, {"<x>", false}}),
            (Ids{'<', 'x', '>', 260, '<', 'x', '>'}));
  EXPECT_EQ(ids(tokenizer, std::vector<TextSegment>{}), Ids{});
}

TEST(TokenizerFeatures, TextThatIsNotUtf8IsRefused) {
  const Tokenizer tokenizer = build(small_tokenizer());
  for (const std::string text : {"ab\xff", "ab\xc3", "ab\xed\xa0\x80", "ab\xc0\x80"}) {
    const auto result = tokenizer.encode(text);
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(result.error().message.find("at 2"), std::string::npos) << result.error().message;
  }
  // A character may lie across a border.
  EXPECT_EQ(ids(tokenizer, {{"\xc3", false}, {"\xa9", true}}), (Ids{0xC3, 0xA9}));
}

TEST(TokenizerFeatures, BrokenCharactersInDecodedText) {
  const Tokenizer tokenizer = build(small_tokenizer());
  const Ids tokens = {0xF0, 0x9F, 'a', 0xE4, 0xB8, 0xAD, 0x80, 0xC3};
  EXPECT_EQ(tokenizer.decode(tokens, false), "\uFFFDa中\uFFFD\uFFFD");
  StreamDecoder stream(tokenizer, false);
  const std::vector<std::string> shown = {"", "", "\uFFFDa", "", "", "中", "\uFFFD", ""};
  for (size_t i = 0; i < tokens.size(); ++i) EXPECT_EQ(stream.push(tokens[i]), shown[i]);
  EXPECT_EQ(stream.finish(), "\uFFFD");
  EXPECT_EQ(stream.finish(), "");
}

// A pattern of the file that takes exponential or quadratic time ends in an error.
TEST(TokenizerFeatures, PatternsThatBacktrackAreStopped) {
  for (const std::string regex :
       {"(a+)+[bc]", "(a|a)+[bc]", "a*[bc]", "a*a*a*[bc]", "(?:a*?)*?[bc]", "(a{1,1000}){1,20}[bc]"}) {
    Json json = small_tokenizer();
    json["pre_tokenizer"]["pretokenizers"][0] = split_step(regex);
    const auto result = build(json).encode(std::string(200'000, 'a'));
    ASSERT_FALSE(result.has_value()) << regex;
    EXPECT_NE(result.error().message.find("takes too long"), std::string::npos) << result.error().message;
  }
}

TEST(RegexDialect, WhatIsLetThrough) {
  const auto translate = [](std::string_view pattern) {
    return translate_regex(pattern).value_or("refused");
  };
  EXPECT_EQ(translate("a|b"), "\\x{61}|\\x{62}");
  EXPECT_EQ(translate("(\\s)"), "(?:[\\x{9}-\\x{d}\\x{85}\\p{Z}])");
  EXPECT_EQ(translate("[^\\r\\p{^L}-]??"), "[^\\x{d}\\P{L}\\x{2d}]??");
  EXPECT_EQ(translate("[一-龥]{1,3}"), "[\\x{4e00}-\\x{9fa5}]{1,3}");
  EXPECT_EQ(translate("\\u00e9\\x{1F600}\\}"), "\\x{e9}\\x{1f600}\\x{7d}");
}

TEST(RegexDialect, WhatIsRefused) {
  for (const std::string pattern : {"^a",          "a$",          "\\w",
                                    "\\b",         "\\h",         "\\R",
                                    "\\1",         "\\",          "[",
                                    "[]",          "[]a]",        "[a",
                                    "[[a]]",       "[[:alpha:]]", "[a&&b]",
                                    "[a-\\d]",     "[b-a]",       "[a-b-c]",
                                    "[\\S]",       "a**",         "a{2}?",
                                    "a{2}+",       "a{,2}",       "a{2",
                                    "a{3,2}",      "a{1001}",     "a{99999999999}",
                                    "(?i)a",       "(?i:a)",      "(?<=a)b",
                                    "(?<n>a)",     "(?>a)",       "\\p{Han}",
                                    "\\p{l}",      "\\pL",        "\\p{L",
                                    "\\x41",       "\\x{}",       "\\uD800",
                                    "\\x{110000}", "\\u12",       "a+?+",
                                    "[\\w]",       "[a-[b]]",     "\\k<a>"}) {
    const auto result = translate_regex(pattern);
    EXPECT_FALSE(result.has_value()) << pattern << " became " << *result;
  }
}

// U+180E was white space long ago; PCRE2 still takes it for that, the reference library does not.
TEST(RegexDialect, WhiteSpaceIsThatOfUnicode) {
  const Tokenizer tokenizer = build([] {
    Json json = small_tokenizer();
    json["pre_tokenizer"]["pretokenizers"][0] = split_step("\\s+");
    json["pre_tokenizer"]["pretokenizers"][1] = split_step("\\S+");
    json["model"]["vocab"]["aá"] = small_size;      // a and the first byte of U+180E
    json["model"]["vocab"]["aÂ"] = small_size + 1;  // a and the first byte of U+0085
    json["model"]["merges"].push_back("a á");
    json["model"]["merges"].push_back("a Â");
    return json;
  }());
  EXPECT_EQ(ids(tokenizer, "a\u180e"), (Ids{small_size, 0xA0, 0x8E}));
  EXPECT_EQ(ids(tokenizer, "a\u0085"), (Ids{'a', 0xC2, 0x85}));
}

}  // namespace
}  // namespace fathom::testing
