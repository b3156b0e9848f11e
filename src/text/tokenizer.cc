#include "text/tokenizer.h"

#include <limits>

#include "base/file.h"
#include "text/byte_alphabet.h"
#include "text/tokenizer_file.h"
#include "text/utf8.h"

namespace fathom {

Result<Tokenizer> Tokenizer::parse(std::string_view json, std::string_view what) {
  FATHOM_ASSIGN(const TokenizerFile file, parse_tokenizer_file(json, what));
  FATHOM_ASSIGN(Vocabulary vocabulary, Vocabulary::build(file));
  FATHOM_ASSIGN(AddedTokens added, AddedTokens::build(file));
  FATHOM_ASSIGN(PreTokenizer pre_tokenizer, PreTokenizer::build(file.split_patterns, what));
  FATHOM_ASSIGN(Bpe bpe, Bpe::build(file, vocabulary));
  return Tokenizer(std::move(vocabulary), std::move(added), std::move(pre_tokenizer), std::move(bpe),
                   file.ignore_merges);
}

Result<Tokenizer> Tokenizer::load(const std::filesystem::path& path) {
  constexpr uint64_t max_bytes = uint64_t{256} << 20;  // the released file has 8 MB
  std::error_code error;  // a path that cannot be looked at is read_file's to report
  const bool is_directory = std::filesystem::is_directory(path, error);
  const std::filesystem::path file = is_directory ? path / "tokenizer.json" : path;
  FATHOM_ASSIGN(const std::string json, read_file(file, max_bytes));
  return parse(json, file.string());
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text) const {
  const TextRange all = {0, text.size()};
  return encode(text, {&all, 1});
}

Result<std::vector<int32_t>> Tokenizer::encode(std::span<const TextSegment> segments) const {
  std::string text;
  std::vector<TextRange> trusted;
  for (const TextSegment& segment : segments) {
    const TextRange range = {text.size(), text.size() + segment.text.size()};
    text += segment.text;
    if (!segment.trusted || segment.text.empty()) continue;
    if (!trusted.empty() && trusted.back().end == range.begin)
      trusted.back().end = range.end;
    else
      trusted.push_back(range);
  }
  return encode(text, trusted);
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text,
                                               std::span<const TextRange> trusted) const {
  if (text.size() >= std::numeric_limits<int32_t>::max())
    return fail(ErrorCode::invalid_argument, "text to tokenize: expected less than 2 GiB, found {} bytes",
                text.size());
  if (const size_t at = find_invalid_utf8(text); at != std::string_view::npos)
    return fail(ErrorCode::invalid_argument,
                "text to tokenize: expected UTF-8, found the byte 0x{:02x} at {}",
                static_cast<uint8_t>(text[at]), at);
  std::vector<int32_t> ids;
  Bpe::Workspace workspace;
  for (const TextSpan& span : added_.split(text, trusted)) {
    if (span.id >= 0)
      ids.push_back(span.id);
    else
      FATHOM_TRY(
          encode_plain(text.substr(span.range.begin, span.range.end - span.range.begin), workspace, ids));
  }
  return ids;
}

Status Tokenizer::encode_plain(std::string_view text, Bpe::Workspace& workspace,
                               std::vector<int32_t>& ids) const {
  std::vector<TextRange> pieces;
  FATHOM_TRY(pre_tokenizer_.split(text, pieces));
  for (const TextRange& range : pieces) {
    const std::string_view piece = text.substr(range.begin, range.end - range.begin);
    if (const auto id = whole_piece(piece))
      ids.push_back(*id);
    else
      bpe_.encode(piece, workspace, ids);
  }
  return {};
}

// With ignore_merges, the token that is a whole piece, whether merges lead to it or not. Added tokens are
// left to AddedTokens, which looks at trust.
std::optional<int32_t> Tokenizer::whole_piece(std::string_view piece) const {
  if (!ignore_merges_) return std::nullopt;
  std::string name;
  for (const char byte : piece) name += byte_level_character(static_cast<uint8_t>(byte));
  const auto id = vocabulary_.id_of(name);
  return id && !vocabulary_.is_added(*id) ? id : std::nullopt;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids)
    if (!(skip_special && is_special(id))) bytes += token_bytes(id);
  std::string text;
  append_repaired_utf8(text, bytes);
  return text;
}

std::string_view Tokenizer::token(int32_t id) const {
  return contains(id) ? std::string_view(vocabulary_.token(id)) : std::string_view();
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  return contains(id) ? std::string_view(vocabulary_.bytes(id)) : std::string_view();
}

}  // namespace fathom
