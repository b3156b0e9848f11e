// Files that must not load: features that are not implemented, and broken or hostile content. Each message
// names the field and what was found.

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/text/small_tokenizer.h"

namespace fathom {
namespace {

using testing::added_token;
using testing::small_size;
using testing::small_tokenizer;

std::string error_of(std::string_view text) {
  const auto result = Tokenizer::parse(text, "t.json");
  return result ? "loaded" : result.error().message;
}

struct Case {
  std::string pointer;  // JSON pointer of the value that is replaced or added
  Json value;
  std::vector<std::string> message;  // parts of the message
};

void check(const Case& item) {
  Json json = small_tokenizer();
  json[Json::json_pointer(item.pointer)] = item.value;
  const std::string message = error_of(json.dump());
  for (const std::string& part : item.message)
    EXPECT_NE(message.find(part), std::string::npos) << item.pointer << ": " << message;
}

TEST(TokenizerRefusal, TheUnchangedFileLoads) { EXPECT_EQ(error_of(small_tokenizer().dump()), "loaded"); }

TEST(TokenizerRefusal, FeaturesNotImplemented) {
  const std::string first = "/pre_tokenizer/pretokenizers/0/", last = "/pre_tokenizer/pretokenizers/2/";
  const std::vector<Case> cases = {
      {"/version", "2.0", {"t.json.version", "\"1.0\"", "\"2.0\""}},
      {"/truncation", {{"max_length", 5}}, {"t.json.truncation", "null", "an object of 1 keys"}},
      {"/padding", {{"pad_id", 0}}, {"t.json.padding", "null"}},
      {"/normalizer", {{"type", "NFC"}}, {"t.json.normalizer.type", "\"Sequence\"", "\"NFC\""}},
      {"/normalizer",
       {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}},
       {"normalizers", "an array of 1 items"}},
      {"/model/type", "WordPiece", {"t.json.model.type", "\"BPE\"", "\"WordPiece\""}},
      {"/model/dropout", 0.1, {"t.json.model.dropout", "null", "0.1"}},
      {"/model/unk_token", "<unk>", {"t.json.model.unk_token", "\"<unk>\""}},
      {"/model/byte_fallback", true, {"t.json.model.byte_fallback", "true"}},
      {"/model/fuse_unk", true, {"t.json.model.fuse_unk"}},
      {"/model/continuing_subword_prefix", "##", {"t.json.model.continuing_subword_prefix", "##"}},
      {"/model/end_of_word_suffix", "</w>", {"t.json.model.end_of_word_suffix", "</w>"}},
      {"/model/new_feature", 1, {"t.json.model.\"new_feature\"", "unknown key"}},
      {"/new_feature", 1, {"t.json.\"new_feature\"", "unknown key"}},
      {first + "behavior", "Removed", {"pretokenizers[0].behavior", "\"Isolated\"", "\"Removed\""}},
      {first + "invert", true, {"pretokenizers[0].invert", "true"}},
      {first + "type", "Digits", {"pretokenizers[0].type", "\"Split\"", "\"Digits\""}},
      {first + "pattern", {{"String", " "}}, {"pretokenizers[0].pattern", "String"}},
      {first + "pattern/Regex", "(?i:a)", {"(?i:a)", "not supported"}},
      {first + "pattern/Regex", "a*", {"may match the empty text"}},
      {first + "pattern/Regex", "a|", {"may match the empty text"}},
      {last + "add_prefix_space", true, {"pretokenizers[2].add_prefix_space", "false", "true"}},
      {last + "use_regex", true, {"pretokenizers[2].use_regex"}},
      {last + "type", "Metaspace", {"pretokenizers[2].type", "\"ByteLevel\"", "\"Metaspace\""}},
      {"/decoder/type", "WordPiece", {"t.json.decoder.type"}},
      {"/post_processor",
       {{"type", "TemplateProcessing"}},
       {"t.json.post_processor.type", "TemplateProcessing"}},
  };
  for (const Case& item : cases) check(item);
}

TEST(TokenizerRefusal, BrokenFields) {
  const Json vocab = small_tokenizer()["model"]["vocab"];
  const std::vector<Case> cases = {
      {"/model", 5, {"t.json.model", "an object", "5"}},
      {"/model/vocab", Json::array(), {"t.json.model.vocab", "an object"}},
      {"/model/vocab", Json::object(), {"byte 0x00"}},
      {"/model/vocab/ab", -1, {"vocab[\"ab\"]", "-1"}},
      {"/model/vocab/ab", 2.5, {"vocab[\"ab\"]", "2.5"}},
      {"/model/vocab/ab", "5", {"vocab[\"ab\"]"}},
      {"/model/vocab/ab", 2147483647, {"vocab[\"ab\"]", "2147483647"}},
      {"/model/vocab/ab", 18446744073709551615u, {"vocab[\"ab\"]"}},
      {"/model/vocab/ab", 2147483646, {"\"ab\" is 2147483646", "without gaps"}},
      {"/model/vocab/ab", 'x', {"id 120 belongs to both"}},
      {"/model/vocab/new", small_size + 1, {"without gaps"}},
      {"/model/merges", Json::object(), {"t.json.model.merges", "an array"}},
      {"/model/merges/1", "a", {"model.merges[1]"}},
      {"/model/merges/1", "a b c", {"model.merges[1]"}},
      {"/model/merges/1", Json::array({"a"}), {"model.merges[1]"}},
      {"/model/merges/1", Json::array({"a", 5}), {"model.merges[1]"}},
      {"/model/merges/1", 5, {"model.merges[1]"}},
      {"/model/merges/1", "zz a", {"model.merges[1]", "\"zz\" is not in the vocabulary"}},
      {"/model/merges/1", "a zz", {"model.merges[1]", "\"zz\" is not in the vocabulary"}},
      {"/model/merges/1", "c a", {"model.merges[1]", "\"ca\" is not in the vocabulary"}},
      {"/model/merges/1", "a b", {"model.merges[1] is the same as model.merges[0]"}},
      {"/model/ignore_merges", "yes", {"model.ignore_merges"}},
      {"/pre_tokenizer", nullptr, {"t.json.pre_tokenizer"}},
      {"/pre_tokenizer/pretokenizers", Json::array(), {"pretokenizers"}},
      {"/pre_tokenizer/pretokenizers/0/pattern/Regex", "(a", {"\"(a\""}},
      {"/pre_tokenizer/pretokenizers/0/pattern/Regex", "a)", {"\"a)\""}},
      {"/pre_tokenizer/pretokenizers/0/pattern/Regex", "*", {"\"*\""}},
      {"/pre_tokenizer/pretokenizers/0/pattern/Regex",
       std::string(400, '(') + "a" + std::string(400, ')'),
       {"regular expression"}},
      {"/decoder", nullptr, {"t.json.decoder"}},
      {"/added_tokens", 5, {"t.json.added_tokens"}},
      {"/added_tokens", Json::array({5}), {"added_tokens[0]", "an object"}},
      {"/added_tokens", Json::array({added_token(-1, "<x>")}), {"added_tokens[0].id", "-1"}},
      {"/added_tokens", Json::array({added_token(small_size + 1, "<x>")}), {"without gaps"}},
      {"/added_tokens", Json::array({added_token(small_size, "")}), {"added_tokens[0].content"}},
      {"/added_tokens", Json::array({added_token(5, "<x>")}), {"id 5 belongs to both"}},
      {"/added_tokens",
       Json::array({added_token(small_size, "<x>"), added_token(small_size, "<x>")}),
       {"belongs to both"}},
      {"/added_tokens",
       Json::array({added_token(small_size, "<x>"), added_token(small_size + 1, "<x>")}),
       {"two ids"}},
      {"/added_tokens", Json::array({added_token(small_size, "abc")}), {"\"abc\" has two ids"}},
      {"/added_tokens", Json::array({added_token(testing::abc, "abc")}), {"makes the added token \"abc\""}},
      {"/added_tokens", Json::array({added_token('a', "a")}), {"the added token \"a\" is the byte 0x61"}},
      {"/added_tokens", Json::array({added_token(small_size, "éé")}), {"byte map"}},
  };
  for (const Case& item : cases) check(item);
}

TEST(TokenizerRefusal, MissingFields) {
  for (const std::string key : {"version", "pre_tokenizer", "decoder", "model"}) {
    Json json = small_tokenizer();
    json.erase(key);
    EXPECT_EQ(error_of(json.dump()), "t.json." + key + ": missing");
  }
  for (const std::string key : {"type", "vocab", "merges"}) {
    Json json = small_tokenizer();
    json["model"].erase(key);
    EXPECT_EQ(error_of(json.dump()), "t.json.model." + key + ": missing");
  }
  Json json = small_tokenizer();
  json["added_tokens"].push_back(added_token(small_size, "<x>"));
  for (const std::string key :
       {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}) {
    Json broken = json;
    broken["added_tokens"][0].erase(key);
    EXPECT_EQ(error_of(broken.dump()), "t.json.added_tokens[0]." + key + ": missing");
  }
}

TEST(TokenizerRefusal, StrippedWhiteSpaceBesideTokensOfIt) {
  Json json = small_tokenizer();
  json["added_tokens"] = Json::array({added_token(small_size, "<x>"), added_token(small_size + 1, "<y> ")});
  EXPECT_EQ(error_of(json.dump()), "loaded");
  json["added_tokens"][0]["rstrip"] = true;
  EXPECT_NE(error_of(json.dump()).find("white space"), std::string::npos);
}

TEST(TokenizerRefusal, NotJson) {
  const std::string good = small_tokenizer().dump();
  EXPECT_NE(error_of(""), "loaded");
  EXPECT_NE(error_of("[]"), "loaded");
  EXPECT_NE(error_of(std::string(100'000, '[')), "loaded");
  EXPECT_NE(error_of("{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}"), "loaded");
  EXPECT_NE(error_of("{\"version\": \"\xff\"}"), "loaded");
  EXPECT_NE(error_of("{\"version\": \"\\ud800\"}"), "loaded");
  EXPECT_NE(error_of(good + "x"), "loaded");
  for (size_t size = 0; size < good.size(); size += 7) EXPECT_NE(error_of(good.substr(0, size)), "loaded");
}

TEST(TokenizerRefusal, Paths) {
  const auto missing = Tokenizer::load("/no/such/place");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  const auto empty = Tokenizer::load(std::filesystem::path(FATHOM_SOURCE_DIR) / "cmake");
  ASSERT_FALSE(empty.has_value());
  EXPECT_NE(empty.error().message.find("tokenizer.json"), std::string::npos);
}

}  // namespace
}  // namespace fathom
