// Input that begins with { is a tokenizer.json; whatever loads must then keep its promises on a fixed text.
// Any other input is a text (and, by its bytes, a list of ids) for the tiny model's tokenizer.
//
// Checked: texts come back from their ids, streams equal decode, segments equal the joined text where no
// added token is near, and untrusted text makes no added token.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "text/stream_decoder.h"
#include "text/token_map.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using fathom::StreamDecoder;
using fathom::TextSegment;
using fathom::Tokenizer;

const Tokenizer& tiny() {
  static const Tokenizer tokenizer = [] {
    auto loaded = Tokenizer::load(FATHOM_SOURCE_DIR "/tests/golden/tiny/model");
    FATHOM_CHECK(loaded.has_value());
    return std::move(loaded).value();
  }();
  return tokenizer;
}

void check_stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  for (const bool skip : {false, true}) {
    StreamDecoder stream(tokenizer, skip);
    std::string joined;
    for (const int32_t id : ids) {
      const std::string shown = stream.push(id);
      FATHOM_CHECK_EQ(fathom::find_invalid_utf8(shown), std::string::npos);
      joined += shown;
    }
    joined += stream.finish();
    FATHOM_CHECK_EQ(joined, tokenizer.decode(ids, skip));
  }
}

bool has_added(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  return std::any_of(ids.begin(), ids.end(), [&](int32_t id) { return tokenizer.is_added(id); });
}

// `is_lossless`: the tokenizer strips no white space.
void check_text(const Tokenizer& tokenizer, std::string_view text, bool is_lossless) {
  const auto ids = tokenizer.encode(text);
  FATHOM_CHECK(!ids || fathom::find_invalid_utf8(text) == std::string_view::npos);
  if (!ids) return;
  for (const int32_t id : *ids) FATHOM_CHECK(tokenizer.contains(id));
  if (is_lossless) FATHOM_CHECK_EQ(tokenizer.decode(*ids, false), text);
  check_stream(tokenizer, *ids);

  const size_t at = text.size() * 5 / 8;
  const std::string head(text.substr(0, at)), tail(text.substr(at));
  const auto plain = tokenizer.encode(std::vector<TextSegment>{{head, false}, {tail, false}});
  if (!plain) return;  // a pattern of the file that takes too long on the text as a whole
  FATHOM_CHECK(!has_added(tokenizer, *plain));
  FATHOM_CHECK_EQ(tokenizer.decode(*plain, true), text);
  const auto trusted = tokenizer.encode(std::vector<TextSegment>{{head, true}, {tail, true}});
  FATHOM_CHECK(trusted.has_value());
  FATHOM_CHECK(*trusted == *ids);
  const auto half = tokenizer.encode(std::vector<TextSegment>{{head, true}, {tail, false}});
  if (!half || has_added(tokenizer, *ids)) return;
  FATHOM_CHECK(*plain == *ids);
  FATHOM_CHECK(*half == *ids);
}

void check_pattern(std::string_view pattern) {
  const auto pre_tokenizer = fathom::PreTokenizer::build({std::string(pattern)}, "fuzz");
  if (!pre_tokenizer) return;
  const std::string text = "abc 12345 \r\n  \tdef\u0301 <x>中文あ😀 ! " + std::string(2000, 'a') +
                           std::string(2000, ' ') + "\u00a0b";
  std::vector<fathom::TextRange> pieces;
  if (!pre_tokenizer->split(text, pieces)) return;
  size_t at = 0;
  for (const fathom::TextRange& piece : pieces) {
    FATHOM_CHECK_EQ(piece.begin, at);
    FATHOM_CHECK_LT(piece.begin, piece.end);
    at = piece.end;
    FATHOM_CHECK(at == text.size() || (static_cast<uint8_t>(text[at]) & 0xC0) != 0x80);
  }
  FATHOM_CHECK_EQ(at, text.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.starts_with('{')) {
    const auto tokenizer = Tokenizer::parse(input);
    if (!tokenizer) {
      FATHOM_CHECK(tokenizer.error().message.starts_with("tokenizer.json"));
      return 0;
    }
    const auto map = fathom::derive_token_map(*tokenizer);
    FATHOM_CHECK(map && map->size <= tokenizer->vocab_size());
    check_text(*tokenizer, "abc  a1\n中 <x> y😀\t", false);
    return 0;
  }
  if (input.starts_with('/') && fathom::find_invalid_utf8(input) == std::string_view::npos) {
    check_pattern(input.substr(1));
    return 0;
  }
  check_text(tiny(), input, true);
  std::vector<int32_t> ids;
  for (size_t i = 0; i + 1 < size; i += 2) ids.push_back(data[i] + 256 * (data[i + 1] % 5) - 32);
  check_stream(tiny(), ids);
  return 0;
}
