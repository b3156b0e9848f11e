// Shows how far long work has come.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace fathom {

/// "WHAT: 3 of 7 UNIT".
struct ProgressWords {
  std::string what = "prompt";
  std::string unit = "tokens";
};

/// On a terminal a bar that appears when the work takes longer than a moment and vanishes when it is done;
/// elsewhere a plain line every few seconds; or nothing.
class ProgressDisplay {
 public:
  enum class Style { none, lines, bar };
  using Clock = std::function<std::chrono::steady_clock::time_point()>;

  /// `write` takes text for standard error; failures there are nobody's business.
  ProgressDisplay(Style style, std::function<void(std::string_view)> write, ProgressWords words = {},
                  Clock clock = std::chrono::steady_clock::now);

  /// `done` of `total` units are done; a call with done == total ends the display.
  void update(int64_t done, int64_t total);
  /// Removes a bar that still stands, as after cancelled work.
  void clear();

 private:
  Style style_;
  std::function<void(std::string_view)> write_;
  ProgressWords words_;
  Clock clock_;
  bool running_ = false;
  bool bar_shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace fathom
