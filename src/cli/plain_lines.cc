#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/line_source.h"
#include "cli/signals.h"

namespace fathom {
namespace {

// Appends what one read gives; false at the end of input.
Result<bool> read_more(int fd, const std::string& name, std::string& to) {
  const size_t before = to.size();
  to.resize(before + (size_t{1} << 16));
  for (;;) {
    const ssize_t got = read(fd, to.data() + before, to.size() - before);
    const int reason = got < 0 ? errno : 0;
    if (reason == EINTR && !interrupted()) continue;
    to.resize(before + (got > 0 ? static_cast<size_t>(got) : 0));
    if (got >= 0) return got > 0;
    if (reason == EINTR) return fail(ErrorCode::cancelled, "interrupted");
    return fail(ErrorCode::io, "{}: {}", name, std::strerror(reason));
  }
}

class PlainLines : public LineSource {
 public:
  PlainLines(int fd, std::string name, uint64_t max_line_bytes)
      : fd_(fd), name_(std::move(name)), max_line_bytes_(max_line_bytes) {}

  Result<std::optional<std::string>> next(const std::string&) override {
    std::string line;
    for (;;) {
      if (const size_t end = buffer_.find('\n', begin_); end != std::string::npos) {
        line.append(buffer_, begin_, end - begin_);
        begin_ = end + 1;
        FATHOM_TRY(check_length(line));
        ++number_;
        return line;
      }
      line.append(buffer_, begin_);
      FATHOM_TRY(check_length(line));
      FATHOM_ASSIGN(const bool more, fill());
      if (more) continue;
      if (line.empty()) return std::nullopt;
      return line;
    }
  }

 private:
  Status check_length(const std::string& line) const {
    if (line.size() <= max_line_bytes_) return {};
    return fail(ErrorCode::format, "{}: line {} is longer than {} bytes", name_, number_ + 1,
                max_line_bytes_);
  }

  // Replaces the buffer, which is used up; false at the end of input.
  Result<bool> fill() {
    buffer_.clear();
    begin_ = 0;
    return read_more(fd_, name_, buffer_);
  }

  int fd_;
  std::string name_;
  uint64_t max_line_bytes_;
  std::string buffer_;
  size_t begin_ = 0;
  int64_t number_ = 0;
};

}  // namespace

Result<std::string> read_standard_input(uint64_t max_bytes) {
  std::string text;
  for (;;) {
    FATHOM_ASSIGN(const bool more, read_more(STDIN_FILENO, "standard input", text));
    if (!more) return text;
    if (text.size() > max_bytes)
      return fail(ErrorCode::format, "standard input: expected at most {} bytes, found more", max_bytes);
  }
}

std::unique_ptr<LineSource> plain_lines(int fd, std::string name, uint64_t max_line_bytes) {
  return std::make_unique<PlainLines>(fd, std::move(name), max_line_bytes);
}

}  // namespace fathom
