// Compressed ids: which tokens look alike to the n-gram memory (spec 3, "Compressed ids").
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace fathom {

struct TokenMap {
  std::vector<int32_t> map;  // [vocab_size] -> compressed id, numbered in order of first use
  int32_t size = 0;  // number of compressed ids; config.json's engram_compressed_vocab_size must equal it
};

/// Errors: unsupported, where the Unicode library's data is missing.
Result<TokenMap> derive_token_map(const Tokenizer& tokenizer);

}  // namespace fathom
