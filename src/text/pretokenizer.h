// Cuts text into pieces that are tokenized one by one: the Split steps of tokenizer.json, in sequence.
//
// Works on bytes of valid UTF-8 and hands out ranges; knows nothing of tokens.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/text_range.h"

namespace fathom {

/// Immutable and free to use from several threads at once. The categories of characters are PCRE2's (Unicode
/// 14 in its release 10.42): a text with characters assigned since may be cut otherwise than by a library
/// that knows them.
class PreTokenizer {
 public:
  /// `what` names the file in messages. Errors: unsupported (see regex_dialect.h; a pattern that can match
  /// the empty text) and format (not a regular expression).
  static Result<PreTokenizer> build(const std::vector<std::string>& patterns, std::string_view what);

  PreTokenizer(PreTokenizer&&) noexcept;
  PreTokenizer& operator=(PreTokenizer&&) noexcept;
  ~PreTokenizer();

  /// Replaces `pieces` with a partition of `text` (valid UTF-8) in order, without empty pieces: each pattern
  /// in turn cuts every piece so far into its matches and what lies between ("Isolated"). The work allowed is
  /// linear in the text, so that a pattern that backtracks without end gives an error. Errors:
  /// invalid_argument, naming the pattern.
  Status split(std::string_view text, std::vector<TextRange>& pieces) const;

 private:
  struct Pattern;
  explicit PreTokenizer(std::vector<Pattern> patterns);

  std::vector<Pattern> patterns_;
};

}  // namespace fathom
