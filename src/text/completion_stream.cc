#include "text/completion_stream.h"

#include <algorithm>
#include <utility>

#include "text/chat_tokens.h"

namespace fathom {
namespace {

using namespace chat_tokens;
using Kind = CompletionEvent::Kind;
constexpr std::string_view kSpaces = " \t\n\r\f\v";

// Where a piece of a tag stops being possible text: no other special text begins like the DSML mark.
constexpr std::string_view kMarkBegin = "｜D";
static_assert(kDsml.starts_with(kMarkBegin));

}  // namespace

void apply(const CompletionEvent& event, AssistantMessage& message) {
  switch (event.kind) {
    case Kind::reasoning:
      message.reasoning_content += event.text;
      return;
    case Kind::content:
      message.content += event.text;
      return;
    case Kind::call_begin:
      message.tool_calls.push_back({event.text, "", false});
      return;
    case Kind::call_arguments:
      message.tool_calls.back().arguments += event.text;
      return;
    case Kind::call_end:
      message.tool_calls.back().finished = true;
      return;
  }
}

CompletionStream::CompletionStream(ThinkingMode mode) : in_reasoning_(mode == ThinkingMode::thinking) {}

std::vector<CompletionEvent> CompletionStream::push(std::string_view text) {
  utf8_.push(text, pending_);
  run();
  end_run();
  return std::exchange(events_, {});
}

std::vector<CompletionEvent> CompletionStream::finish() {
  // Each turn ends the state it is in; giving text back can open another block, later in the text.
  while (cursor_ < pending_.size() || state_ != State::text) {
    cut();
    run();
  }
  end_run();
  return std::exchange(events_, {});
}

void CompletionStream::run() {
  while (step()) {
  }
}

// Forgets the text that no state can want again.
void CompletionStream::end_run() {
  emit_arguments();
  const bool keeps_held = state_ != State::text && state_ != State::value;
  const size_t done = keeps_held ? held_ : cursor_;
  pending_.erase(0, done);
  cursor_ -= done;
  scanned_ -= std::min(scanned_, done);
  held_ -= std::min(held_, done);
}

bool CompletionStream::step() {
  switch (state_) {
    case State::text:
      return step_text();
    case State::tag_end:
      return step_tag_end();
    case State::between_calls:
    case State::between_parameters:
      return step_between();
    case State::head:
      return step_head();
    case State::key:
      return step_key();
    case State::value:
      return step_value();
  }
  return false;
}

void CompletionStream::enter(State state, size_t cursor) {
  state_ = state;
  cursor_ = cursor;
  scanned_ = cursor;
}

// The first place from scanned_ on where one of the markers stands, or where the text ends inside one. No
// marker is the beginning of another, and none ends in the beginning of another.
CompletionStream::Marker CompletionStream::find(const std::string_view* markers, int count) const {
  const std::string_view text = pending_;
  std::string first_bytes;
  for (int i = 0; i < count; ++i) first_bytes += markers[i].front();
  for (size_t at = text.find_first_of(first_bytes, scanned_); at != std::string_view::npos;
       at = text.find_first_of(first_bytes, at + 1)) {
    const std::string_view here = text.substr(at);
    for (int i = 0; i < count; ++i) {
      if (here.starts_with(markers[i])) return {at, i, false};
      if (markers[i].starts_with(here)) return {at, i, true};
    }
  }
  return {text.size(), -1, false};
}

bool CompletionStream::step_text() {
  constexpr std::string_view kMarkers[] = {kEnd, kCallsOpen, kEndThink};
  const Marker found = find(kMarkers, in_reasoning_ ? 3 : 2);
  plain(pending_from(cursor_).substr(0, found.begin - cursor_));
  if (found.index < 0 || found.is_partial) {
    enter(State::text, found.begin);
    return false;
  }
  const size_t behind = found.begin + kMarkers[found.index].size();
  if (found.index == 1) {
    held_ = found.begin;
    held_is_opener_ = true;
    tag_ = Tag::calls_open;
    enter(State::tag_end, behind);
  } else {
    if (found.index == 2) in_reasoning_ = false;
    enter(State::text, behind);
  }
  return true;
}

bool CompletionStream::step_tag_end() {
  if (cursor_ == pending_.size()) return false;
  if (pending_[cursor_] != '>') {
    malformed();
    return true;
  }
  if (tag_ == Tag::invoke_close) {
    if (!call_is_open_) begin_call();
    arguments_.end(written_);
    emit_arguments();
    emit(Kind::call_end, "");
    call_is_open_ = false;
    ++num_calls_;
  }
  if (tag_ != Tag::calls_open) {
    held_ = cursor_ + 1;
    held_is_opener_ = false;
  }
  enter(tag_ == Tag::parameter_close ? State::between_parameters : State::between_calls, cursor_ + 1);
  return true;
}

bool CompletionStream::step_between() {
  const bool in_call = state_ == State::between_parameters;
  cursor_ = std::min(pending_.find_first_not_of(kSpaces, cursor_), pending_.size());
  const std::string_view here = pending_from(cursor_);
  const std::string_view open = in_call ? kParameterOpen : kInvokeOpen;
  const std::string_view close = in_call ? kInvokeClose : kCallsClose;
  if (here.starts_with(open)) {
    enter(in_call ? State::key : State::head, cursor_ + open.size());
  } else if (here.starts_with(close)) {
    tag_ = Tag::invoke_close;
    enter(in_call ? State::tag_end : State::text, cursor_ + close.size());
  } else if (open.starts_with(here) || close.starts_with(here)) {
    return false;
  } else {
    malformed();
  }
  return true;
}

bool CompletionStream::step_head() {
  constexpr std::string_view kMarkers[] = {kParameterOpen, kInvokeClose, kDsml};
  const Marker found = find(kMarkers, 3);
  if (found.index < 0 || found.is_partial) {
    scanned_ = found.begin;
    return false;
  }
  const InvokeHead head = read_invoke_head(pending_from(cursor_).substr(0, found.begin - cursor_));
  if (head.form != InvokeHead::Form::complete || found.index == 2) {
    malformed();
    return true;
  }
  name_ = head.name;
  arguments_ = {};
  tag_ = Tag::invoke_close;
  enter(found.index == 0 ? State::key : State::tag_end, found.begin + kMarkers[found.index].size());
  return true;
}

bool CompletionStream::step_key() {
  constexpr std::string_view kMarkers[] = {kStringTrue, kStringFalse, kDsml};
  const Marker found = find(kMarkers, 3);
  const bool is_decided = found.index >= 0 && !found.is_partial;
  std::string_view key = pending_from(cursor_).substr(0, found.begin - cursor_);
  if (is_decided ? found.index == 2 || !key.starts_with(kNameAttribute) : !may_be_key()) {
    malformed();
    return true;
  }
  if (!is_decided) {
    scanned_ = found.begin;
    return false;
  }
  key.remove_prefix(kNameAttribute.size());
  if (!call_is_open_) begin_call();
  if (!arguments_.open(key, found.index == 0 ? ParameterKind::text : ParameterKind::json, written_)) {
    malformed();
    return true;
  }
  enter(State::value, found.begin + kMarkers[found.index].size());
  return true;
}

bool CompletionStream::step_value() {
  constexpr std::string_view kMarkers[] = {kParameterClose, kEnd};
  Marker found = find(kMarkers, 2);
  size_t end = found.begin;
  const bool is_end_text = found.index == 1 && !found.is_partial;
  const bool may_be_the_end = is_end_text && end + kEnd.size() == pending_.size();
  if (is_end_text && !may_be_the_end) end += kEnd.size();  // text follows: it only spells the end
  const size_t taken = arguments_.value(pending_from(cursor_).substr(0, end - cursor_), written_);
  if (cursor_ + taken < end) {
    held_ = cursor_ + taken;
    malformed();
    return true;
  }
  held_ = end;
  held_is_opener_ = false;
  enter(State::value, end);
  if (is_end_text) return !may_be_the_end;
  if (found.index < 0 || found.is_partial) return false;
  if (!arguments_.close(written_)) {
    malformed();
    return true;
  }
  tag_ = Tag::parameter_close;
  enter(State::tag_end, end + kParameterClose.size());
  return true;
}

// The block went wrong: what is held becomes plain text, and may hold the beginning of another block.
void CompletionStream::malformed() {
  emit_arguments();
  if (call_is_open_) ++num_calls_;
  call_is_open_ = false;
  size_t next = held_;
  if (held_is_opener_) {
    plain(kCallsOpen);
    next += kCallsOpen.size();
  }
  held_is_opener_ = false;
  enter(State::text, next);
}

// The text ends in this state.
void CompletionStream::cut() {
  const bool at_end_text = pending_from(cursor_).ends_with(kEnd);
  if (state_ == State::text) {
    // Steps leave nothing but the beginning of a tag. With the DSML mark in it, it is no text.
    if (pending_from(cursor_).find(kMarkBegin) == std::string_view::npos) plain(pending_from(cursor_));
    enter(State::text, pending_.size());
    return;
  }
  if (state_ == State::value) {
    const std::string_view rest = pending_from(cursor_);
    if (!at_end_text && rest.find(kMarkBegin) == std::string_view::npos) {
      const size_t taken = arguments_.value(rest, written_);
      cursor_ += taken;
      if (taken < rest.size()) {
        held_ = cursor_;
        malformed();
        return;
      }
    }
    arguments_.abandon(written_);
  } else if (at_end_text || !cut_tag()) {
    malformed();
    return;
  }
  emit_arguments();
  if (call_is_open_) ++num_calls_;
  call_is_open_ = false;
  enter(State::text, pending_.size());
}

// Whether the text from the cursor on still can be the name of a parameter.
bool CompletionStream::may_be_key() const {
  const std::string_view here = pending_from(cursor_);
  return here.starts_with(kNameAttribute) || kNameAttribute.starts_with(here);
}

// Whether what is held is well-formed as far as it goes; if so, a call whose opening tag is complete begins.
bool CompletionStream::cut_tag() {
  bool opens_call = false;
  if (state_ == State::tag_end) {
    opens_call = tag_ == Tag::invoke_close;
  } else if (state_ == State::head) {
    const InvokeHead head = read_invoke_head(pending_from(cursor_).substr(0, scanned_ - cursor_));
    if (head.form == InvokeHead::Form::malformed) return false;
    opens_call = head.form == InvokeHead::Form::complete;
    if (opens_call) name_ = head.name;
  } else if (state_ == State::key) {
    if (!may_be_key()) return false;
    opens_call = true;
  }
  if (opens_call && !call_is_open_) {
    begin_call();
    written_ += '{';  // never empty: some clients take no arguments for {}
  }
  return true;
}

void CompletionStream::begin_call() {
  call_is_open_ = true;
  in_reasoning_ = false;
  held_is_opener_ = false;
  emit_arguments();
  emit(Kind::call_begin, name_);
}

void CompletionStream::plain(std::string_view text) {
  if (!text.empty()) emit(in_reasoning_ ? Kind::reasoning : Kind::content, text);
}

void CompletionStream::emit_arguments() {
  if (!written_.empty()) emit(Kind::call_arguments, written_);
  written_.clear();
}

void CompletionStream::emit(Kind kind, std::string_view text) {
  const bool of_call = kind != Kind::reasoning && kind != Kind::content;
  const bool joins =
      kind != Kind::call_begin && kind != Kind::call_end && !events_.empty() && events_.back().kind == kind;
  if (joins)
    events_.back().text += text;
  else
    events_.push_back({kind, of_call ? num_calls_ : -1, std::string(text)});
}

}  // namespace fathom
