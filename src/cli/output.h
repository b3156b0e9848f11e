// Standard output and standard error as the commands use them: every failed write is an error.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace fathom {

/// A buffered writer to a file descriptor that someone else owns. Not flushed on destruction: a command that
/// ends well flushes, and reports if that fails.
class Output {
 public:
  /// `name` is for messages: "standard output".
  Output(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}

  /// Errors: io, naming the output and the system's reason.
  Status write(std::string_view text);
  Status flush();

 private:
  int fd_;
  std::string name_;
  std::string buffer_;
};

/// Makes text from a model or a file safe for a terminal: control characters, which could move the cursor or
/// set a title, become U+FFFD; newline and tab stay. `text` is UTF-8 with whole characters.
std::string without_controls(std::string_view text);

}  // namespace fathom
