// Text to token ids and back, as tokenizer.json says (spec 2, "Tokenizer"; spec 6, trusted segments).
//
// Joins the steps: added tokens, pieces, byte-pair encoding. Knows nothing of chats and models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pretokenizer.h"
#include "text/segment.h"
#include "text/vocabulary.h"

namespace fathom {

/// Immutable and free to use from several threads at once. Movable, not copyable.
class Tokenizer {
 public:
  /// From the text of a tokenizer.json; `what` names it in messages. Errors: format (a broken file),
  /// unsupported (a feature that is not implemented); the message names the field and what was found.
  static Result<Tokenizer> parse(std::string_view json, std::string_view what = "tokenizer.json");

  /// From a model directory, or from the path of the file itself. Errors: those of read_file and parse.
  static Result<Tokenizer> load(const std::filesystem::path& path);

  /// Base and added entries: ids run from 0 to vocab_size() - 1 without gaps.
  int32_t vocab_size() const { return vocabulary_.size(); }

  /// The ids of a text, with the text of added tokens becoming those tokens; none is put before or behind it.
  /// Errors: invalid_argument, for a text that is not valid UTF-8 (nothing is replaced in silence), for one
  /// of 2 GiB or more, and for one on which a regular expression of the file takes more than linear time.
  Result<std::vector<int32_t>> encode(std::string_view text) const;

  /// The ids of the joined segments, except that an added token is matched only where all of its content lies
  /// in trusted segments (of which there may be several). Everything else is cut into pieces across borders
  /// of segments: without special text the ids are those of the joined text. No id for which is_added holds
  /// comes from untrusted text. The joined text must be valid UTF-8; errors as above.
  Result<std::vector<int32_t>> encode(std::span<const TextSegment> segments) const;

  /// The text of ids: the bytes of all tokens, joined, with each broken part of UTF-8 replaced by U+FFFD as
  /// in the reference library. `skip_special` leaves out tokens for which is_special holds. Ids out of range
  /// stand for nothing, also as in that library; whoever takes ids from outside checks contains().
  std::string decode(std::span<const int32_t> ids, bool skip_special) const;

  bool contains(int32_t id) const { return vocabulary_.contains(id); }

  /// The string of a token as in the file: in the byte map's characters, or an added token's content. Empty
  /// for an id out of range. Lives as long as the tokenizer.
  std::string_view token(int32_t id) const;

  std::optional<int32_t> id_of(std::string_view token) const { return vocabulary_.id_of(token); }

  /// The bytes a token stands for (of an added token: its content), not always whole characters. Empty for an
  /// id out of range. Lives as long as the tokenizer.
  std::string_view token_bytes(int32_t id) const;

  /// Whether a token is listed in added_tokens, and whether it is marked as special there.
  bool is_added(int32_t id) const { return contains(id) && vocabulary_.is_added(id); }
  bool is_special(int32_t id) const { return contains(id) && vocabulary_.is_special(id); }

 private:
  Tokenizer(Vocabulary vocabulary, AddedTokens added, PreTokenizer pre_tokenizer, Bpe bpe, bool ignore_merges)
      : vocabulary_(std::move(vocabulary)),
        added_(std::move(added)),
        pre_tokenizer_(std::move(pre_tokenizer)),
        bpe_(std::move(bpe)),
        ignore_merges_(ignore_merges) {}

  Result<std::vector<int32_t>> encode(std::string_view text, std::span<const TextRange> trusted) const;
  Status encode_plain(std::string_view text, Bpe::Workspace& workspace, std::vector<int32_t>& ids) const;
  std::optional<int32_t> whole_piece(std::string_view piece) const;

  Vocabulary vocabulary_;
  AddedTokens added_;
  PreTokenizer pre_tokenizer_;
  Bpe bpe_;
  bool ignore_merges_;
};

}  // namespace fathom
