#include "text/utf8.h"

namespace fathom {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

// How a lead byte goes on: the number of bytes and the range of the second one, which is where overlong
// forms, surrogates and values past U+10FFFF are shut out (Unicode, table 3-7).
struct Lead {
  uint8_t size = 0;  // 0: not a lead byte
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte < 0xC2) return {0};
  if (byte < 0xE0) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  const Lead lead = lead_of(first);
  if (lead.size == 0) return {Utf8Kind::broken, 1, 0};
  if (lead.size == 1) return {Utf8Kind::character, 1, first};
  char32_t code_point = first & (0x7Fu >> lead.size);
  for (uint8_t i = 1; i < lead.size; ++i) {
    if (i >= text.size()) return {Utf8Kind::unfinished, i, 0};
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return {Utf8Kind::broken, i, 0};
    code_point = (code_point << 6) | (byte & 0x3Fu);
  }
  return {Utf8Kind::character, lead.size, code_point};
}

size_t find_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Step step = utf8_step(text.substr(at));
    if (step.kind != Utf8Kind::character) return at;
    at += step.size;
  }
  return std::string_view::npos;
}

size_t append_finished_utf8(std::string& out, std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Step step = utf8_step(bytes.substr(at));
    if (step.kind == Utf8Kind::unfinished) break;
    out += step.kind == Utf8Kind::character ? bytes.substr(at, step.size) : replacement;
    at += step.size;
  }
  return at;
}

void append_repaired_utf8(std::string& out, std::string_view bytes) {
  if (append_finished_utf8(out, bytes) < bytes.size()) out += replacement;
}

void append_utf8(std::string& out, char32_t code_point) {
  const auto put = [&out](char32_t byte) { out += static_cast<char>(static_cast<uint8_t>(byte)); };
  if (code_point < 0x80) return put(code_point);
  if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
  }
  put(0x80 | (code_point & 0x3F));
}

size_t previous_character(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

}  // namespace fathom
