#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace fathom {
namespace {

constexpr size_t buffer_bytes = size_t{1} << 16;
constexpr std::string_view replacement = "\xEF\xBF\xBD";

}  // namespace

Status Output::write(std::string_view text) {
  buffer_ += text;
  return buffer_.size() < buffer_bytes ? Status{} : flush();
}

Status Output::flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written >= 0) {
      rest.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      const int reason = errno;
      buffer_.clear();
      return fail(ErrorCode::io, "{}: {}", name_, std::strerror(reason));
    }
  }
  buffer_.clear();
  return {};
}

std::string without_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto after = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F) {
      out += replacement;
    } else if (byte == 0xC2 && after >= 0x80 && after <= 0x9F) {  // U+0080 to U+009F
      out += replacement;
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace fathom
