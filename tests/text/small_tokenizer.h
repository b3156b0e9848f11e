// A tokenizer.json small enough to reason about: the 256 bytes (id = byte), four merges, three Split
// patterns, and whatever a test puts in.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer.h"

namespace fathom::testing {

constexpr int32_t ab = 256, abc = 257, bc = 258, space_a = 259, small_size = 260;

inline Json split_step(const std::string& regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}

inline Json small_tokenizer() {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[byte_level_character(static_cast<uint8_t>(byte))] = byte;
  vocab["ab"] = ab;
  vocab["abc"] = abc;
  vocab["bc"] = bc;
  vocab["Ġa"] = space_a;
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  Json steps = Json::array({split_step("\\p{N}{1,3}"), split_step("\\s+(?!\\S)| ?\\p{L}+|\\s+"), byte_level});
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}}},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", std::move(vocab)},
            {"merges", {"a b", "ab c", "b c", "Ġ a"}}}}};
}

inline Json added_token(int32_t id, const std::string& content, bool special = true) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

inline Tokenizer build(const Json& json) {
  auto tokenizer = Tokenizer::parse(json.dump(), "small");
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  return std::move(tokenizer).value();
}

inline std::vector<int32_t> ids(const Tokenizer& tokenizer, std::string_view text) {
  const auto result = tokenizer.encode(text);
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return result.value_or(std::vector<int32_t>{-1});
}

inline std::vector<int32_t> ids(const Tokenizer& tokenizer, const std::vector<TextSegment>& segments) {
  const auto result = tokenizer.encode(segments);
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return result.value_or(std::vector<int32_t>{-1});
}

}  // namespace fathom::testing
