// Finds added tokens in text, before anything else looks at it (spec 2, "Tokenizer"; spec 6, trusted
// segments).
//
// Leftmost match first, the longest of those. Tokens that are not "normalized" are matched in a first round,
// the others in what it leaves; there is no normalizer, so both see the same characters.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/text_range.h"
#include "text/tokenizer_file.h"

namespace fathom {

struct TextSpan {
  TextRange range;
  int32_t id = -1;  // of an added token; -1: plain text
};

/// Immutable and free to use from several threads at once.
class AddedTokens {
 public:
  /// Errors: unsupported (a token that begins or ends with white space, where some token strips it).
  static Result<AddedTokens> build(const TokenizerFile& file);

  /// Cuts `text` (valid UTF-8) into added tokens and the plain text between them, in order, none empty. A
  /// token is matched only where one of the `trusted` ranges (ascending, apart) holds all of its content; the
  /// white space it strips may lie outside. Takes time linear in the text.
  std::vector<TextSpan> split(std::string_view text, std::span<const TextRange> trusted) const;

 private:
  struct Token {
    int32_t id = 0;
    size_t size = 0;  // bytes
    bool single_word = false, lstrip = false, rstrip = false;
  };
  struct Match {
    size_t begin = 0;
    const Token* token = nullptr;
  };

  // All tokens of one round, as an Aho-Corasick automaton over their reversed bytes: read from right to left,
  // it knows at every position the longest token that begins there. (From left to right, the longest token
  // is known only after reading past it, and reading again what was passed is not linear.)
  class Round {
   public:
    explicit Round(std::vector<AddedTokenEntry> entries);
    // Appends the longest token at each position of text[range], from right to left.
    void find_all(std::string_view text, const TextRange& range, std::vector<Match>& matches) const;
    // Cuts text[piece] as split does.
    void split(std::string_view text, const TextRange& piece, std::span<const TextRange> trusted,
               std::vector<TextSpan>& spans) const;

   private:
    struct Node {
      int32_t fallback = 0;  // the longest proper suffix of this node that is a node
      int32_t token = -1;    // index of the longest token that is a suffix of this node
    };
    int32_t follow(int32_t node, uint8_t byte) const;
    void insert(const std::string& content, int32_t token);
    void link();

    std::vector<Token> tokens_;
    std::vector<Node> nodes_;                          // 0: the root
    std::array<int32_t, 256> roots_{};                 // edges of the root, 0: none
    std::unordered_map<uint64_t, int32_t> edges_;      // of the others: node << 8 | byte
    std::vector<std::pair<int32_t, uint8_t>> parent_;  // of each node, and the byte between
  };

  AddedTokens(Round raw, Round normalized) : raw_(std::move(raw)), normalized_(std::move(normalized)) {}

  Round raw_;
  Round normalized_;
};

}  // namespace fathom
