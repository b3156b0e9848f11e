#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/line_source.h"
#include "cli/signals.h"

namespace fathom {
namespace {

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
    buffer_.resize(size_t{1} << 16);
    begin_ = 0;
    for (;;) {
      const ssize_t got = read(fd_, buffer_.data(), buffer_.size());
      if (got < 0 && errno == EINTR && !interrupted()) continue;
      const int reason = errno;
      buffer_.resize(got > 0 ? static_cast<size_t>(got) : 0);
      if (got >= 0) return got > 0;
      if (reason == EINTR) return fail(ErrorCode::cancelled, "interrupted");
      return fail(ErrorCode::io, "{}: {}", name_, std::strerror(reason));
    }
  }

  int fd_;
  std::string name_;
  uint64_t max_line_bytes_;
  std::string buffer_;
  size_t begin_ = 0;
  int64_t number_ = 0;
};

}  // namespace

std::unique_ptr<LineSource> plain_lines(int fd, std::string name, uint64_t max_line_bytes) {
  return std::make_unique<PlainLines>(fd, std::move(name), max_line_bytes);
}

}  // namespace fathom
