#include "cli/progress.h"

#include <fmt/format.h>

#include <utility>

namespace fathom {
namespace {

using namespace std::chrono_literals;
constexpr auto bar_delay = 500ms;
constexpr auto line_period = 5s;
constexpr int64_t bar_width = 30;
constexpr std::string_view clear_line = "\r\x1b[K";

}  // namespace

ProgressDisplay::ProgressDisplay(Style style, std::function<void(std::string_view)> write,
                                 ProgressWords words, Clock clock)
    : style_(style), write_(std::move(write)), words_(std::move(words)), clock_(std::move(clock)) {}

void ProgressDisplay::update(int64_t done, int64_t total) {
  if (style_ == Style::none) return;
  const auto now = clock_();
  if (done >= total) {
    clear();
    return;
  }
  if (!running_) {
    running_ = true;
    last_ = now;
    return;
  }
  if (style_ == Style::bar && (bar_shown_ || now - last_ >= bar_delay)) {
    const int64_t filled = total > 0 ? done * bar_width / total : 0;
    write_(fmt::format("{}{} [{:#<{}}{:.<{}}] {} of {} {}", clear_line, words_.what, "", filled, "",
                       bar_width - filled, done, total, words_.unit));
    bar_shown_ = true;
  } else if (style_ == Style::lines && now - last_ >= line_period) {
    write_(fmt::format("{}: {} of {} {}\n", words_.what, done, total, words_.unit));
    last_ = now;
  }
}

void ProgressDisplay::clear() {
  running_ = false;
  if (std::exchange(bar_shown_, false)) write_(clear_line);
}

}  // namespace fathom
