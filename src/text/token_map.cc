#include "text/token_map.h"

#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_map>

namespace fathom {
namespace {

constexpr UChar32 lone_space = 0xE000;  // private use; keeps a text of one space from being trimmed away

// The normal forms in use, owned by ICU.
struct Forms {
  const icu::Normalizer2* nfkc = nullptr;
  const icu::Normalizer2* nfd = nullptr;
};

bool is_collapsed_space(UChar32 c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// Lower case of each character by itself: no final sigma.
void append_lower(icu::UnicodeString& out, UChar32 c) {
  constexpr UChar32 capital_i_with_dot = 0x130;  // the only character whose lower case is two
  if (c == capital_i_with_dot)
    out.append(u'i').append(UChar32{0x307});
  else
    out.append(u_tolower(c));
}

// Without marks, in lower case, runs of space as one. Marks of all three kinds go (Mn, Mc, Me), not the
// nonspacing ones alone: with those alone the V3 tokenizer would have 99,045 ids instead of 98,627.
icu::UnicodeString fold(const icu::UnicodeString& text) {
  icu::UnicodeString out;
  bool after_space = false;
  for (int32_t i = 0; i < text.length(); i = text.moveIndex32(i, 1)) {
    const UChar32 c = text.char32At(i);
    if ((U_GET_GC_MASK(c) & U_GC_M_MASK) != 0) continue;
    const bool is_space = is_collapsed_space(c);
    if (!is_space)
      append_lower(out, c);
    else if (!after_space)
      out.append(u' ');
    after_space = is_space;
  }
  return out;
}

icu::UnicodeString trim(const icu::UnicodeString& text) {
  int32_t begin = 0;
  int32_t end = text.length();  // white space lies in the basic plane: one unit each
  while (begin < end && u_isUWhiteSpace(text[begin]) != 0) ++begin;
  while (end > begin && u_isUWhiteSpace(text[end - 1]) != 0) --end;
  return icu::UnicodeString(text, begin, end - begin);
}

Result<std::string> key_of(const Forms& forms, const std::string& text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::UnicodeString compatible = forms.nfkc->normalize(icu::UnicodeString::fromUTF8(text), status);
  icu::UnicodeString folded = fold(forms.nfd->normalize(compatible, status));
  if (U_FAILURE(status) != 0)
    return fail(ErrorCode::unsupported, "Unicode normalization failed: {}", u_errorName(status));
  if (folded == icu::UnicodeString(u' ')) folded = icu::UnicodeString(lone_space);
  folded = trim(folded);
  folded.findAndReplace(icu::UnicodeString(lone_space), icu::UnicodeString(u' '));
  std::string key;
  folded.toUTF8String(key);
  return key.empty() ? text : key;
}

}  // namespace

Result<TokenMap> derive_token_map(const Tokenizer& tokenizer) {
  constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD
  UErrorCode status = U_ZERO_ERROR;
  const Forms forms = {icu::Normalizer2::getNFKCInstance(status), icu::Normalizer2::getNFDInstance(status)};
  if (U_FAILURE(status) != 0)
    return fail(ErrorCode::unsupported, "no Unicode normalization data: {}", u_errorName(status));
  TokenMap out;
  out.map.reserve(static_cast<size_t>(tokenizer.vocab_size()));
  std::unordered_map<std::string, int32_t> ids;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    std::string key = tokenizer.decode({&id, 1}, false);
    if (key.find(replacement) != std::string::npos)
      key = tokenizer.token(id);  // part of a character, or of several
    else {
      FATHOM_ASSIGN(key, key_of(forms, key));
    }
    out.map.push_back(ids.emplace(std::move(key), static_cast<int32_t>(ids.size())).first->second);
  }
  out.size = static_cast<int32_t>(ids.size());
  return out;
}

}  // namespace fathom
