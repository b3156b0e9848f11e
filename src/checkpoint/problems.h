// Collects what is wrong with a file, so that one run tells a user everything that matters.
//
// Names and values in messages come from outside: `printable` makes them safe to show.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fathom {

/// `text` from a file, for a message: control characters escaped, cut after `max_bytes` (at a character
/// boundary of UTF-8).
std::string printable(std::string_view text, size_t max_bytes = 120);

/// One line for the text of Problems: its first message, and how many there are.
std::string in_one_line(std::string_view problems);

/// A list of messages: the first `limit` are kept, all are counted. Memory is bounded by the limit.
class Problems {
 public:
  static constexpr size_t default_limit = 20;

  explicit Problems(size_t limit = default_limit) : limit_(limit) {}

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    if (count_++ < limit_) kept_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  bool empty() const { return count_ == 0; }
  size_t count() const { return count_; }
  /// One message as it is; several as "N problems:" with one indented line each, and how many were left out.
  std::string text() const;

 private:
  size_t limit_;
  size_t count_ = 0;
  std::vector<std::string> kept_;
};

}  // namespace fathom
