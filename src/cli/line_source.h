// Lines of input, from a pipe or file, or typed at a terminal with editing and history.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"

namespace fathom {

class LineSource {
 public:
  virtual ~LineSource() = default;
  /// The next line without its end, or nullopt at the end of input. Errors: io; format for a line that is
  /// too long; cancelled when an interrupt ended the wait (the line is lost, the next read works).
  virtual Result<std::optional<std::string>> next(const std::string& prompt) = 0;
};

/// Reads file descriptor `fd` (not owned) and shows no prompts. A last line without an end counts. `name` is
/// for messages.
std::unique_ptr<LineSource> plain_lines(int fd, std::string name,
                                        uint64_t max_line_bytes = uint64_t{1} << 28);

/// All of standard input. Errors: io, cancelled, format when it is longer than `max_bytes`.
Result<std::string> read_standard_input(uint64_t max_bytes);

/// Edits lines on standard input and output, which must be terminals. Keeps the history in `history_file`
/// (readable by its owner alone), or only in memory when the path is empty or cannot be written.
std::unique_ptr<LineSource> edited_lines(const std::filesystem::path& history_file);

}  // namespace fathom
