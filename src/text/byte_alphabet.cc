#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace fathom {
namespace {

constexpr bool is_printable_latin1(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr int num_unprintable = 68;

struct Alphabet {
  std::array<char16_t, 256> character{};              // of each byte
  std::array<int16_t, 256 + num_unprintable> byte{};  // of each character, -1: none
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (auto& byte : alphabet.byte) byte = -1;
  char16_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const char16_t character = is_printable_latin1(byte) ? static_cast<char16_t>(byte) : next++;
    alphabet.character[static_cast<size_t>(byte)] = character;
    alphabet.byte[character] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet alphabet = make_alphabet();

}  // namespace

std::string byte_level_character(uint8_t byte) {
  std::string out;
  append_utf8(out, alphabet.character[byte]);
  return out;
}

std::string byte_level_decode(std::string_view token) {
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const Utf8Step step = utf8_step(token.substr(at));
    if (step.kind != Utf8Kind::character || step.code_point >= alphabet.byte.size() ||
        alphabet.byte[step.code_point] < 0)
      return std::string(token);
    bytes += static_cast<char>(alphabet.byte[step.code_point]);
    at += step.size;
  }
  return bytes;
}

}  // namespace fathom
