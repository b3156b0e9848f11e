// Compressed ids against the golden maps (spec 3), and the rules one by one on a small vocabulary.

#include "text/token_map.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/file.h"
#include "tests/text/small_tokenizer.h"

namespace fathom {
namespace {

const std::string root = FATHOM_SOURCE_DIR;

// One tensor of 32-bit integers from a trusted safetensors file.
std::vector<int32_t> read_int32(const std::string& path, const std::string& name) {
  const auto file = read_file(path, uint64_t{1} << 30);
  EXPECT_TRUE(file.has_value());
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file->data(), sizeof(header_bytes));
  const auto header = parse_json(std::string_view(*file).substr(8, header_bytes), path);
  EXPECT_TRUE(header.has_value());
  const Json& entry = header->at(name);
  EXPECT_EQ(entry.at("dtype"), "I32");
  const auto begin = entry.at("data_offsets")[0].get<size_t>();
  const auto end = entry.at("data_offsets")[1].get<size_t>();
  std::vector<int32_t> values((end - begin) / sizeof(int32_t));
  std::memcpy(values.data(), file->data() + 8 + header_bytes + begin, end - begin);
  return values;
}

TokenMap derive(const std::string& directory) {
  const auto tokenizer = Tokenizer::load(root + directory);
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  auto map = derive_token_map(*tokenizer);
  EXPECT_TRUE(map.has_value()) << map.error().message;
  return std::move(map).value();
}

TEST(TokenMap, DeepSeekV3) {
  const TokenMap map = derive("/tests/golden/deepseek-v3");
  EXPECT_EQ(map.size, 98627);
  EXPECT_EQ(map.map, read_int32(root + "/tests/golden/ops/token_map_deepseek_v3.safetensors", "token_map"));
}

TEST(TokenMap, TinyModel) {
  const TokenMap map = derive("/tests/golden/tiny/model");
  EXPECT_EQ(map.size, 851);
  EXPECT_EQ(map.map, read_int32(root + "/tests/golden/tiny/golden/prompt_48.safetensors", "token_map"));
}

TEST(TokenMap, DemoModel) {
  const auto text = read_file(root + "/models/demo/config.json", 1 << 20);
  ASSERT_TRUE(text.has_value());
  const auto config = parse_json(*text, "config.json");
  ASSERT_TRUE(config.has_value());
  EXPECT_EQ(derive("/models/demo").size, config->at("text_config").at("engram_compressed_vocab_size"));
}

// The compressed ids of a small tokenizer with these texts as added tokens: those of the texts, and those of
// the bytes. (A text all of Latin-1 letters cannot be an added token: see Vocabulary.)
struct Classes {
  std::vector<int32_t> of, byte;
};

Classes classes(const std::vector<std::string>& texts) {
  Json json = testing::small_tokenizer();
  for (size_t i = 0; i < texts.size(); ++i)
    json["added_tokens"].push_back(
        testing::added_token(testing::small_size + static_cast<int32_t>(i), texts[i]));
  const auto map = derive_token_map(testing::build(json));
  EXPECT_TRUE(map.has_value());
  return {{map->map.begin() + testing::small_size, map->map.end()},
          {map->map.begin(), map->map.begin() + 256}};
}

TEST(TokenMap, LookAlikesAreOne) {
  const auto [of, byte] = classes({"É中", "e\u0301中", "e中", "ｅ中", " E中\n", "f中", "É\t"});
  for (size_t i = 1; i < 5; ++i) EXPECT_EQ(of[0], of[i]) << i;
  EXPECT_NE(of[0], of[5]);
  EXPECT_EQ(of[6], byte['E']);
  EXPECT_EQ(byte['E'], byte['e']);
  EXPECT_NE(byte['E'], byte['f']);
}

TEST(TokenMap, SpacesAndMarks) {
  // Runs of space are one space, which is kept; other white space is trimmed away, and a mark alone goes:
  // then nothing is left and the text itself is the key.
  const auto [of, byte] =
      classes({"  ", "\t\n", "\u2028", "\u2029", "\u00a0\u0301", "\u0903\u0903", "\u0903\u0301", " \u0301 "});
  EXPECT_EQ(of[0], byte[' ']);
  EXPECT_EQ(of[1], byte[' ']);
  EXPECT_EQ(byte['\n'], byte[' ']);
  EXPECT_NE(byte['\v'], byte[' ']);
  EXPECT_NE(of[2], of[3]);
  EXPECT_EQ(of[4], byte[' ']);  // a no-break space is compatible with a space
  EXPECT_NE(of[5], of[6]);
  EXPECT_EQ(of[7], byte[' ']);
}

TEST(TokenMap, LowerCaseCharacterByCharacter) {
  const auto [of, byte] = classes({"ΑΣ", "ας", "ασ", "İ中", "i中", "\u0915\u093e", "\u0915"});
  EXPECT_EQ(of[0], of[2]);  // no final sigma
  EXPECT_NE(of[0], of[1]);
  EXPECT_EQ(of[3], of[4]);
  EXPECT_EQ(of[5], of[6]);  // a spacing mark (Mc) is a mark too
}

TEST(TokenMap, PartsOfCharactersGoByTheirString) {
  const auto map = derive_token_map(testing::build(testing::small_tokenizer()));
  ASSERT_TRUE(map.has_value());
  for (size_t byte = 0x80; byte < 0x100; ++byte)
    for (size_t other = byte + 1; other < 0x100; ++other) EXPECT_NE(map->map[byte], map->map[other]);
}

}  // namespace
}  // namespace fathom
