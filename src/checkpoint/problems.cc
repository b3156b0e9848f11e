#include "checkpoint/problems.h"

namespace fathom {

std::string printable(std::string_view text, size_t max_bytes) {
  const bool cut = text.size() > max_bytes;
  if (cut) {
    size_t end = max_bytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end);
  }
  std::string shown;
  shown.reserve(text.size() + 3);
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code == 0x7F)
      shown += fmt::format("\\x{:02x}", code);
    else
      shown += c;
  }
  if (cut) shown += "...";
  return shown;
}

std::string Problems::text() const {
  if (count_ == 1 && !kept_.empty()) return kept_.front();
  std::string all = fmt::format("{} problems:", count_);
  for (const std::string& message : kept_) all += "\n  " + message;
  if (count_ > kept_.size()) all += fmt::format("\n  and {} more", count_ - kept_.size());
  return all;
}

std::string in_one_line(std::string_view problems) {
  const size_t head = problems.find(":\n  ");
  if (head == std::string_view::npos) return std::string(problems);
  const std::string_view rest = problems.substr(head + 4);
  return fmt::format("{}, the first: {}", problems.substr(0, head), rest.substr(0, rest.find('\n')));
}

}  // namespace fathom
