// Text of a token stream as it grows: what may be shown so far, and never half a character.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace fathom {

/// For every sequence of ids, the texts of all push() calls and of finish(), joined, are
/// Tokenizer::decode(ids, skip_special). Refers to the tokenizer, which must outlive it; one per stream.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  /// Takes the next id and gives the text that nothing to come can change (often empty, up to three bytes are
  /// held back). Ids out of range stand for nothing.
  std::string push(int32_t id);

  /// The end of the stream: U+FFFD for a character that was never finished, else nothing. The decoder is
  /// then as new.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string held_;  // the bytes of an unfinished character
};

}  // namespace fathom
