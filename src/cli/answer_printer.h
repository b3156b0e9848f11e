// Shows a chat answer while it is written: reasoning apart from content, tool calls as a line each.
#pragma once

#include <string_view>

#include "cli/command.h"
#include "text/completion_stream.h"

namespace fathom {

class AnswerPrinter {
 public:
  /// On a styled terminal reasoning is dim; elsewhere it stands between <think> and </think>. Control
  /// characters never reach a terminal.
  AnswerPrinter(const Surroundings& surroundings, ThinkingMode mode)
      : out_(surroundings.out), env_(surroundings.env), stream_(mode) {}

  /// Takes more of the completion's text and writes what is certain, at once. Errors: those of the output.
  Status push(std::string_view text);
  /// The completion ends here, whole or cut: writes the rest and ends the line.
  Status finish();

  /// What has been said, as a message.
  const AssistantMessage& message() const { return message_; }

 private:
  enum class Part { nothing, reasoning, content, call };
  Status show(const CompletionEvent& event);
  Status enter(Part part);
  Status leave();
  Status write(std::string_view text);

  Output& out_;
  const Environment& env_;
  CompletionStream stream_;
  AssistantMessage message_;
  Part part_ = Part::nothing;
  bool at_line_start_ = true;
};

}  // namespace fathom
