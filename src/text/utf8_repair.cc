#include "text/utf8_repair.h"

namespace fathom {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// The character at the front of `text`: how many of its bytes are there, and how many it has in all (0: the
// first byte begins none). Stops at the first byte that cannot follow.
struct Front {
  size_t present, length;
};

Front front_of(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, 1};
  if (lead < 0xC2 || lead > 0xF4) return {1, 0};
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned low = 0x80, high = 0xBF;  // of the second byte
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  size_t present = 1;
  while (present < length && present < text.size() && byte(present) >= low && byte(present) <= high) {
    ++present;
    low = 0x80;
    high = 0xBF;
  }
  return {present, length};
}

}  // namespace

void Utf8Repair::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!held_.empty()) {
    joined = held_;
    joined += bytes;
    held_.clear();
    bytes = joined;
  }
  size_t i = 0;
  while (i < bytes.size()) {
    const Front front = front_of(bytes.substr(i));
    if (front.present == front.length) {
      out += bytes.substr(i, front.present);
    } else if (front.length > 0 && i + front.present == bytes.size()) {
      held_ = bytes.substr(i);
      return;
    } else {
      out += kReplacement;
    }
    i += front.present;
  }
}

bool is_valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const Front front = front_of(text);
    if (front.present != front.length) return false;
    text.remove_prefix(front.present);
  }
  return true;
}

}  // namespace fathom
