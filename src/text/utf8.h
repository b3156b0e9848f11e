// Reading and repairing UTF-8: what is a character, what is broken, what is merely unfinished.
//
// Knows code points only; categories and normalization belong to ICU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fathom {

enum class Utf8Kind : uint8_t {
  character,   // a whole, valid character
  broken,      // bytes that no continuation can make valid
  unfinished,  // the text ends within what may still become a character
};

struct Utf8Step {
  Utf8Kind kind = Utf8Kind::broken;
  uint8_t size = 1;         // bytes: of the character, or of the longest part of one (1 to 4)
  char32_t code_point = 0;  // of a character
};

/// The first step of `text`, which must not be empty.
Utf8Step utf8_step(std::string_view text);

/// The offset of the first byte that is not part of a valid character, or npos.
size_t find_invalid_utf8(std::string_view text);

/// Appends `bytes` with every broken part (the longest start of a character, or one byte) replaced by
/// U+FFFD, as Unicode recommends and the reference library does; an unfinished end counts as broken.
void append_repaired_utf8(std::string& out, std::string_view bytes);

/// The same, but stops before an unfinished end; gives the number of bytes read.
size_t append_finished_utf8(std::string& out, std::string_view bytes);

void append_utf8(std::string& out, char32_t code_point);

/// The offset at which the last character of text[0, end) begins; the text is valid and end > 0.
size_t previous_character(std::string_view text, size_t end);

}  // namespace fathom
