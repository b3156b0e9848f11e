// Whether a tokenizer is the one that a configuration was made with (spec 3, "Compressed ids").
#pragma once

#include "base/result.h"
#include "model/config.h"
#include "text/token_map.h"
#include "text/tokenizer.h"

namespace fathom {

/// The compressed ids of a tokenizer that fits `config`: vocab_size entries and, where there are n-gram
/// tables, engram_compressed_vocab_size compressed ids, from which every multiplier derives. Errors: format,
/// naming both numbers.
Result<TokenMap> match_tokenizer(const ModelConfig& config, const Tokenizer& tokenizer);

}  // namespace fathom
