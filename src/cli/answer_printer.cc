#include "cli/answer_printer.h"

namespace fathom {
namespace {

constexpr std::string_view dim = "\x1b[2m";
constexpr std::string_view plain = "\x1b[0m";

}  // namespace

Status AnswerPrinter::write(std::string_view text) {
  if (text.empty()) return {};
  at_line_start_ = text.back() == '\n';
  return env_.stdout_terminal ? out_.write(without_controls(text)) : out_.write(text);
}

Status AnswerPrinter::leave() {
  if (part_ == Part::reasoning) {
    if (env_.styled) FATHOM_TRY(out_.write(plain));
    if (!at_line_start_) FATHOM_TRY(write("\n"));
    FATHOM_TRY(write(env_.styled ? "\n" : "</think>\n\n"));
  } else if (part_ == Part::call || (part_ == Part::content && !at_line_start_)) {
    FATHOM_TRY(write("\n"));
  }
  part_ = Part::nothing;
  return {};
}

Status AnswerPrinter::enter(Part part) {
  if (part_ == part && part != Part::call) return {};
  FATHOM_TRY(leave());
  part_ = part;
  if (part == Part::reasoning) {
    if (env_.styled) return out_.write(dim);
    return write("<think>\n");
  }
  return {};
}

Status AnswerPrinter::show(const CompletionEvent& event) {
  switch (event.kind) {
    case CompletionEvent::Kind::reasoning:
      FATHOM_TRY(enter(Part::reasoning));
      return write(event.text);
    case CompletionEvent::Kind::content:
      FATHOM_TRY(enter(Part::content));
      return write(event.text);
    case CompletionEvent::Kind::call_begin:
      FATHOM_TRY(enter(Part::call));
      return write("[call] " + event.text + " ");
    case CompletionEvent::Kind::call_arguments:
      return write(event.text);
    case CompletionEvent::Kind::call_end:
      return leave();
  }
  return {};
}

Status AnswerPrinter::push(std::string_view text) {
  for (const CompletionEvent& event : stream_.push(text)) {
    apply(event, message_);
    FATHOM_TRY(show(event));
  }
  return out_.flush();
}

Status AnswerPrinter::finish() {
  for (const CompletionEvent& event : stream_.finish()) {
    apply(event, message_);
    FATHOM_TRY(show(event));
  }
  FATHOM_TRY(leave());
  return out_.flush();
}

}  // namespace fathom
