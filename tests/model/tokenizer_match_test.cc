// A tokenizer that is not the checkpoint's is refused before anything is hashed with it.
#include "model/tokenizer_match.h"

#include <gtest/gtest.h>

namespace fathom {
namespace {

const std::string golden = std::string(FATHOM_SOURCE_DIR) + "/tests/golden/";

TEST(TokenizerMatch, AcceptsItsOwnAndRefusesOthers) {
  const auto tiny = Tokenizer::load(golden + "tiny/model");
  const auto v3 = Tokenizer::load(golden + "deepseek-v3");
  auto config = load_config(golden + "tiny/model");
  ASSERT_TRUE(tiny && v3 && config);
  const auto map = match_tokenizer(*config, *tiny);
  ASSERT_TRUE(map) << map.error().message;
  EXPECT_EQ(map->size, 851);

  const auto entries = match_tokenizer(*config, *v3);
  ASSERT_FALSE(entries);
  EXPECT_EQ(entries.error().message,
            "tokenizer.json: 128815 entries, expected vocab_size 1024 of config.json");

  config->engram_compressed_vocab_size = 850;
  const auto classes = match_tokenizer(*config, *tiny);
  ASSERT_FALSE(classes);
  EXPECT_EQ(classes.error().message,
            "tokenizer.json: 851 compressed ids, expected engram_compressed_vocab_size 850 of config.json");

  config->engram_layer_ids.clear();  // without n-gram tables nothing derives from the number
  EXPECT_TRUE(match_tokenizer(*config, *tiny));
}

}  // namespace
}  // namespace fathom
