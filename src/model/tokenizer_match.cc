#include "model/tokenizer_match.h"

namespace fathom {

Result<TokenMap> match_tokenizer(const ModelConfig& config, const Tokenizer& tokenizer) {
  if (tokenizer.vocab_size() != config.vocab_size)
    return fail(ErrorCode::format, "tokenizer.json: {} entries, expected vocab_size {} of config.json",
                tokenizer.vocab_size(), config.vocab_size);
  FATHOM_ASSIGN(TokenMap map, derive_token_map(tokenizer));
  if (!config.engram_layer_ids.empty() && map.size != config.engram_compressed_vocab_size)
    return fail(ErrorCode::format,
                "tokenizer.json: {} compressed ids, expected engram_compressed_vocab_size {} of config.json",
                map.size, config.engram_compressed_vocab_size);
  return map;
}

}  // namespace fathom
