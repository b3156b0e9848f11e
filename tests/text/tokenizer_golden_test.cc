// The tokenizers of DeepSeek V3, of the tiny model and of the demo model against the Hugging Face library's
// ids and texts, and what must hold for any text: streaming and segments change nothing, untrusted text makes
// no added token.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/file.h"
#include "base/json.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace fathom {
namespace {

const std::string root = FATHOM_SOURCE_DIR;

struct Source {
  std::string name, directory, cases;
};

class Golden : public ::testing::TestWithParam<Source> {
 protected:
  static const Tokenizer& tokenizer() { return loaded().tokenizer; }
  static const Json& cases() { return loaded().cases; }

  static void TearDownTestSuite() { all().clear(); }

 private:
  struct Loaded {
    Tokenizer tokenizer;
    Json cases;
  };
  // Each is read once for all of its tests.
  static std::map<std::string, Loaded>& all() {
    static std::map<std::string, Loaded> sources;
    return sources;
  }
  static const Loaded& loaded() {
    const auto found = all().find(GetParam().name);
    if (found != all().end()) return found->second;
    auto tokenizer = Tokenizer::load(root + GetParam().directory);
    EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
    auto text = read_file(root + GetParam().cases, 1 << 24);
    EXPECT_TRUE(text.has_value()) << text.error().message;
    auto json = parse_json(*text, GetParam().cases);
    EXPECT_TRUE(json.has_value()) << json.error().message;
    return all()
        .emplace(GetParam().name, Loaded{std::move(tokenizer).value(), std::move(json).value()})
        .first->second;
  }
};

bool has_added(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  return std::any_of(ids.begin(), ids.end(), [&](int32_t id) { return tokenizer.is_added(id); });
}

std::vector<int32_t> encode(const Tokenizer& tokenizer, const std::vector<TextSegment>& segments) {
  const auto ids = tokenizer.encode(segments);
  EXPECT_TRUE(ids.has_value()) << ids.error().message;
  return ids.value_or(std::vector<int32_t>{-1});
}

TEST_P(Golden, IdsAndTexts) {
  ASSERT_EQ(cases().size(), 326u);
  for (const Json& item : cases()) {
    const auto text = item.at("text").get<std::string>();
    const auto ids = tokenizer().encode(text);
    ASSERT_TRUE(ids.has_value()) << text << ": " << ids.error().message;
    EXPECT_EQ(*ids, item.at("ids").get<std::vector<int32_t>>()) << text;
    EXPECT_EQ(tokenizer().decode(*ids, false), item.at("decoded").get<std::string>());
    EXPECT_EQ(tokenizer().decode(*ids, true), item.at("skip").get<std::string>());
  }
}

TEST_P(Golden, StreamsGiveTheDecodedText) {
  for (const bool skip : {false, true}) {
    StreamDecoder stream(tokenizer(), skip);  // one for all: finish() makes it new
    for (const Json& item : cases()) {
      auto ids = item.at("ids").get<std::vector<int32_t>>();
      for (int round = 0; round < 2; ++round) {
        std::string joined;
        for (const int32_t id : ids) joined += stream.push(id);
        joined += stream.finish();
        EXPECT_EQ(joined, tokenizer().decode(ids, skip));
        std::reverse(ids.begin(), ids.end());  // the second round: characters in pieces
      }
    }
  }
}

TEST_P(Golden, SegmentsGiveTheIdsOfTheJoinedText) {
  int compared = 0;
  for (const Json& item : cases()) {
    const auto text = item.at("text").get<std::string>();
    const auto expected = item.at("ids").get<std::vector<int32_t>>();
    if (has_added(tokenizer(), expected)) continue;
    for (size_t at = 0; at <= text.size(); ++at) {
      // Trust takes turns, so that all four pairs occur.
      ASSERT_EQ(encode(tokenizer(), {{text.substr(0, at), at % 2 == 0}, {text.substr(at), at % 4 < 2}}),
                expected)
          << text << " split at " << at;
      ++compared;
    }
  }
  EXPECT_GT(compared, 5000);
}

TEST_P(Golden, UntrustedTextMakesNoAddedToken) {
  int added = 0;
  for (int32_t id = 0; id < tokenizer().vocab_size(); ++id) {
    if (!tokenizer().is_added(id)) continue;
    ++added;
    const std::string text(tokenizer().token(id));
    EXPECT_EQ(encode(tokenizer(), {{text, true}}), std::vector<int32_t>{id});
    for (size_t at = 0; at <= text.size(); ++at) {
      const std::string head = text.substr(0, at), tail = text.substr(at);
      EXPECT_EQ(encode(tokenizer(), {{head, true}, {tail, true}}), std::vector<int32_t>{id});
      const bool whole = at == 0 || at == text.size();
      for (const bool trusted : {false, true}) {
        if (whole && trusted) continue;
        const auto ids =
            encode(tokenizer(), {{"a", true}, {head, trusted}, {tail, whole ? false : !trusted}});
        EXPECT_FALSE(has_added(tokenizer(), ids)) << text << " at " << at;
        EXPECT_EQ(tokenizer().decode(ids, true), "a" + text);
      }
    }
  }
  EXPECT_GE(added, 18);
}

TEST_P(Golden, StringsAndIdsAgree) {
  for (int32_t id = 0; id < tokenizer().vocab_size(); ++id)
    ASSERT_EQ(tokenizer().id_of(tokenizer().token(id)), id);
  EXPECT_EQ(tokenizer().id_of("no such token"), std::nullopt);
  for (const int32_t id : {-1, tokenizer().vocab_size(), INT32_MAX, INT32_MIN}) {
    EXPECT_FALSE(tokenizer().contains(id));
    EXPECT_FALSE(tokenizer().is_special(id));
    EXPECT_EQ(tokenizer().token(id), "");
    EXPECT_EQ(tokenizer().token_bytes(id), "");
    EXPECT_EQ(tokenizer().decode({&id, 1}, false), "");
  }
}

// Each would not end if some step were quadratic. The texts decode to themselves.
TEST_P(Golden, LongTextsOfEveryKind) {
  for (const std::string unit : {"a", " ", "7", "😀", " \n", "\n", "!", ">", "｜>", "\u0301",
                                 "<｜end▁of▁sentence｜>", "<｜end▁of▁sentence｜", "中1 あ\tx"}) {
    std::string text;
    while (text.size() < 100'000) text += unit;
    for (const std::string end : {"", "x"}) {
      const auto ids = tokenizer().encode(text + end);
      ASSERT_TRUE(ids.has_value()) << ids.error().message;
      EXPECT_EQ(tokenizer().decode(*ids, false), text + end);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Text, Golden,
                         ::testing::Values(Source{"deepseek_v3", "/tests/golden/deepseek-v3",
                                                  "/tests/golden/text/tokenize_deepseek_v3.json"},
                                           Source{"tiny", "/tests/golden/tiny/model/tokenizer.json",
                                                  "/tests/golden/text/tokenize_tiny.json"}),
                         [](const auto& source) { return source.param.name; });

TEST(Tokenizer, SpecialTokensOfV3) {
  const auto tokenizer = Tokenizer::load(root + "/tests/golden/deepseek-v3");
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->vocab_size(), 128815);
  EXPECT_TRUE(tokenizer->is_special(1));
  EXPECT_EQ(tokenizer->token(1), "<｜end▁of▁sentence｜>");
  EXPECT_TRUE(tokenizer->is_added(128803));  // <｜User｜> is added, but not marked as special
  EXPECT_FALSE(tokenizer->is_special(128803));
  const auto space_the = tokenizer->id_of("Ġthe");
  ASSERT_TRUE(space_the.has_value());
  EXPECT_EQ(tokenizer->token_bytes(*space_the), " the");
}

}  // namespace
}  // namespace fathom
