// Reads a completion while it is being written: reasoning, content, tool calls, as events (spec 6, Parsing).
//
// The events joined together are the same for every split of the text into pieces, and give the message of
// completion_parse.h wherever that parser accepts the text. Nothing is refused here:
//  - A tag or a part of one is never an event's text; what may become a tag waits until it is decided.
//  - Each end-of-sentence text is left out of reasoning and content, and what follows it goes on there. In
//    the values of a call it is text, unless the completion ends with it.
//  - A block that goes wrong before its first call began becomes plain text, whole. One that goes wrong
//    inside a call leaves the call unfinished (its arguments the beginning of an object, never executable),
//    and the rest of the block becomes content. Only spaces between tags may differ from the strict form.
//  - A string="false" value that is not JSON becomes a string when it goes wrong at its beginning (a bare
//    word), and leaves the call unfinished when it goes wrong later.
//  - A tool block inside the reasoning ends it, once its first call has begun.
//  - Invalid UTF-8 becomes U+FFFD; events never split a character; half a character at the end is dropped.
// Linear time for any text and any split.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/argument_writer.h"
#include "text/completion_parse.h"
#include "text/utf8_repair.h"

namespace fathom {

struct CompletionEvent {
  enum class Kind {
    reasoning,       // text: more reasoning
    content,         // text: more content
    call_begin,      // text: the name; at least one piece of arguments follows
    call_arguments,  // text: more of the arguments' JSON text
    call_end,        // the call is whole; without this event it must not be executed
  };
  Kind kind = Kind::content;
  int call_index = -1;  // 0, 1, ... for the three call events
  std::string text;     // never empty, but in call_end, and in call_begin for a call without a name

  bool operator==(const CompletionEvent&) const = default;
};

/// Adds an event to the message it is part of. Events must come in order.
void apply(const CompletionEvent& event, AssistantMessage& message);

class CompletionStream {
 public:
  /// In thinking mode the completion begins inside the reasoning.
  explicit CompletionStream(ThinkingMode mode);

  /// Takes the next piece, split anywhere, even inside a character; returns what is certain by now.
  std::vector<CompletionEvent> push(std::string_view text);

  /// The completion ends here, with or without end-of-sentence; returns what was still waiting. When it was
  /// cut in the middle of well-formed tags, the piece of a tag is dropped, and a call whose opening tag is
  /// complete is reported, unfinished. To be called once, last.
  std::vector<CompletionEvent> finish();

 private:
  // Where the cursor is.
  enum class State {
    text,           // reasoning or content
    tag_end,        // behind a tag's name; its > must come
    between_calls,  // a call or the end of the block must come
    between_parameters,
    head,  // behind <｜DSML｜ invoke: the call's name
    key,   // behind <｜DSML｜ parameter: the parameter's name and kind
    value,
  };
  enum class Tag { calls_open, parameter_close, invoke_close };
  struct Marker {
    size_t begin;     // where it stands; the end of the text when there is none
    int index;        // which of the markers asked for
    bool is_partial;  // the text ends inside it
  };

  // Each step reads from the cursor and moves on; false: more text is needed.
  bool step();
  bool step_text();
  bool step_tag_end();
  bool step_between();
  bool step_head();
  bool step_key();
  bool step_value();

  void run();
  void end_run();
  void enter(State state, size_t cursor);
  void malformed();
  void cut();
  bool cut_tag();
  bool may_be_key() const;
  void begin_call();
  void plain(std::string_view text);
  void emit(CompletionEvent::Kind kind, std::string_view text);
  void emit_arguments();
  Marker find(const std::string_view* markers, int count) const;
  std::string_view pending_from(size_t begin) const { return std::string_view(pending_).substr(begin); }

  bool in_reasoning_;
  State state_ = State::text;
  Utf8Repair utf8_;
  std::string pending_;  // text not done with yet
  size_t cursor_ = 0;    // the state's text begins here
  size_t scanned_ = 0;   // no marker of the state begins before
  size_t held_ = 0;      // in a block: what becomes plain text if it goes wrong begins here
  bool held_is_opener_ = false;
  Tag tag_ = Tag::calls_open;
  int num_calls_ = 0;
  bool call_is_open_ = false;
  std::string name_;          // of the call that is open or about to be
  ArgumentWriter arguments_;  // of that call
  std::string written_;       // arguments not yet emitted
  std::vector<CompletionEvent> events_;
};

}  // namespace fathom
