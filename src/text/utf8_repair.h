// Makes valid UTF-8 of bytes that arrive in pieces: whole characters pass, what is none becomes U+FFFD.
#pragma once

#include <string>
#include <string_view>

namespace fathom {

class Utf8Repair {
 public:
  /// Appends the whole characters of what was held and `bytes` to `out`; an unfinished one is held (at the
  /// end of all bytes it is no character, and lost). Each
  /// maximal beginning of a character that breaks off, and each byte that begins none, gives one U+FFFD.
  void push(std::string_view bytes, std::string& out);

 private:
  std::string held_;  // the first 1 to 3 bytes of a character
};

/// Whether `text` is valid UTF-8: no surrogates, nothing overlong, nothing above U+10FFFF.
bool is_valid_utf8(std::string_view text);

}  // namespace fathom
