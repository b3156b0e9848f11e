// Shows how far a long prompt has come.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>

namespace fathom {

/// On a terminal a bar that appears when a prompt takes longer than a moment and vanishes when it is done;
/// elsewhere a plain line every few seconds; or nothing.
class PrefillProgress {
 public:
  enum class Style { none, lines, bar };
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  /// `write` takes text for standard error; failures there are nobody's business.
  PrefillProgress(Style style, std::function<void(std::string_view)> write,
                  Clock clock = std::chrono::steady_clock::now);

  /// `done` of `total` tokens are computed; a call with done == total ends the display.
  void update(int64_t done, int64_t total);
  /// Removes a bar that still stands, as after a cancelled prompt.
  void clear();

 private:
  Style style_;
  std::function<void(std::string_view)> write_;
  Clock clock_;
  bool running_ = false;
  bool bar_shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace fathom
