// The byte map of byte-level BPE: every byte has a printable character that stands for it.
//
// Bytes that are printable in Latin-1 stand for themselves; the other 68 take U+0100 and on, in byte order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace fathom {

/// The character that stands for a byte, as UTF-8.
std::string byte_level_character(uint8_t byte);

/// The bytes that a vocabulary string stands for: one for each character of the byte alphabet. A string
/// with any other character stands for its own UTF-8 bytes, as in the reference library.
std::string byte_level_decode(std::string_view token);

}  // namespace fathom
