// tokenizer.json as plain data: which fields are read, and which features are refused (spec 2, "Tokenizer").
//
// Checks each field by itself. Whether ids, merges and patterns fit together is checked by the classes that
// are built from them: Vocabulary, Bpe, AddedTokens, PreTokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace fathom {

struct AddedTokenEntry {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // matches only where no word character touches it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // takes the white space after it along
  bool normalized = false;   // matched after those that are not
  bool special = false;      // left out by decode(skip_special)
};

struct TokenizerFile {
  std::string what;                                         // names the file in messages
  std::vector<std::pair<std::string, int32_t>> vocab;       // model.vocab, ids >= 0
  std::vector<std::pair<std::string, std::string>> merges;  // model.merges, best first
  bool ignore_merges = false;                               // a piece that is a vocabulary entry is one token
  std::vector<AddedTokenEntry> added;                       // none empty
  std::vector<std::string> split_patterns;                  // regular expressions in the file's dialect
};

/// Errors: format (not JSON, or a field of the wrong kind) and unsupported (a feature not implemented), each
/// with the field and what was found.
Result<TokenizerFile> parse_tokenizer_file(std::string_view json, std::string_view what);

}  // namespace fathom
