// Byte-pair encoding: the bytes of one piece, merged pair by pair in the order of the merge list.
//
// Knows the merges as numbers; where pieces come from and what added tokens are is not its concern.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer_file.h"
#include "text/vocabulary.h"

namespace fathom {

class Bpe {
 public:
  /// `vocabulary` was built from `file`. Errors: format (a merge of or into an unknown token, or twice the
  /// same) and unsupported (a byte of UTF-8 without a token; an added token that plain text could become).
  static Result<Bpe> build(const TokenizerFile& file, const Vocabulary& vocabulary);

  /// Buffers for encode, kept between calls; one per thread.
  class Workspace {
   private:
    friend class Bpe;
    struct Symbol {
      int32_t id = 0;  // -1: merged into the one before it
      int32_t previous = -1, next = -1;
    };
    std::vector<Symbol> symbols;
    std::vector<uint64_t> heap;  // rank << 32 | position: lowest rank first, then leftmost
  };

  /// Appends the ids of one piece: valid UTF-8 of less than 2^31 bytes. Takes n log n time.
  void encode(std::string_view piece, Workspace& workspace, std::vector<int32_t>& ids) const;

 private:
  struct Merge {
    int32_t right = 0;
    int32_t rank = 0;
    int32_t id = 0;  // of the result
  };

  Bpe() = default;
  const Merge* find(int32_t left, int32_t right) const;
  bool offer(Workspace& workspace, int32_t position) const;
  void merge(Workspace& workspace) const;

  std::array<int32_t, 256> byte_ids_{};  // -1: none
  std::vector<uint32_t> first_;          // [vocabulary size + 1]: where the merges of a left token begin
  std::vector<Merge> merges_;            // by left token, then by right token
  std::vector<int32_t> results_;         // [rank]: the token a merge makes
};

}  // namespace fathom
