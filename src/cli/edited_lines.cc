// Line editing by libedit.

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <cwchar>
#include <system_error>

#include "cli/line_source.h"
#include "cli/signals.h"

namespace fathom {
namespace {

constexpr int history_lines = 1000;

struct EditLineEnd {
  void operator()(EditLine* edit) const { el_end(edit); }
};
struct HistoryEnd {
  void operator()(History* history) const { history_end(history); }
};

// One character of standard input. libedit's own reader goes on reading after an interrupt; this one gives
// up, so that Ctrl-C leaves the line at once.
int read_character(EditLine*, wchar_t* out) {
  std::mbstate_t state{};
  for (;;) {
    char byte = 0;
    const ssize_t got = read(STDIN_FILENO, &byte, 1);
    if (got < 0 && errno == EINTR && !interrupted()) continue;
    if (got <= 0) return static_cast<int>(got);
    const size_t used = std::mbrtowc(out, &byte, 1, &state);
    if (used == static_cast<size_t>(-2)) continue;  // an incomplete character
    if (used == static_cast<size_t>(-1)) {          // not one: start again with the next byte
      state = {};
      continue;
    }
    return 1;
  }
}

class EditedLines : public LineSource {
 public:
  explicit EditedLines(std::filesystem::path history_file)
      : history_file_(std::move(history_file)),
        edit_(el_init("fathom", stdin, stdout, stderr)),
        history_(history_init()) {
    HistEvent event;
    if (history_) {
      history(history_.get(), &event, H_SETSIZE, history_lines);
      history(history_.get(), &event, H_SETUNIQUE, 1);
      if (!history_file_.empty()) history(history_.get(), &event, H_LOAD, history_file_.c_str());
    }
    if (!edit_) return;
    el_set(edit_.get(), EL_CLIENTDATA, this);
    el_set(
        edit_.get(), EL_PROMPT, +[](EditLine* edit) -> char* {
          void* self = nullptr;
          el_get(edit, EL_CLIENTDATA, &self);
          return static_cast<EditedLines*>(self)->prompt_.data();
        });
    el_set(edit_.get(), EL_EDITOR, "emacs");
    el_set(edit_.get(), EL_GETCFN, read_character);
    if (history_) el_set(edit_.get(), EL_HIST, history, history_.get());
    el_source(edit_.get(), nullptr);  // the user's own key bindings
  }

  Result<std::optional<std::string>> next(const std::string& prompt) override {
    if (!edit_) return fail(ErrorCode::io, "terminal: line editing cannot start");
    prompt_ = prompt;
    int length = 0;
    const char* typed = el_gets(edit_.get(), &length);
    if (take_interrupt()) {
      el_reset(edit_.get());
      return fail(ErrorCode::cancelled, "interrupted");
    }
    if (!typed || length <= 0) return std::nullopt;
    std::string line(typed, static_cast<size_t>(length));
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    remember(line);
    return line;
  }

 private:
  void remember(const std::string& line) {
    if (!history_ || line.empty()) return;
    HistEvent event;
    history(history_.get(), &event, H_ENTER, line.c_str());
    if (history_file_.empty()) return;
    // History is a comfort: without a place for it the chat goes on.
    std::error_code ignored;
    if (std::filesystem::create_directories(history_file_.parent_path(), ignored))
      std::filesystem::permissions(history_file_.parent_path(), std::filesystem::perms::owner_all, ignored);
    history(history_.get(), &event, H_SAVE, history_file_.c_str());
  }

  std::filesystem::path history_file_;
  std::string prompt_;
  std::unique_ptr<EditLine, EditLineEnd> edit_;
  std::unique_ptr<History, HistoryEnd> history_;
};

}  // namespace

std::unique_ptr<LineSource> edited_lines(const std::filesystem::path& history_file) {
  // Typed characters are UTF-8, whatever a bare system's locale says.
  if (!std::setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
  return std::make_unique<EditedLines>(history_file);
}

}  // namespace fathom
