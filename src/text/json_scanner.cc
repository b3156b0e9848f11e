#include "text/json_scanner.h"

namespace fathom {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

size_t JsonScanner::take(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i)
    if (!step(text[i])) return i;
  return text.size();
}

bool JsonScanner::is_whole() const {
  if (!open_.empty()) return false;
  switch (state_) {
    case State::after_value:
    case State::zero:
    case State::digits:
    case State::fraction:
    case State::exponent_digits:
      return true;
    default:
      return false;
  }
}

bool JsonScanner::step(char c) {
  switch (state_) {
    case State::value:
    case State::array_first:
    case State::object_first:
    case State::key:
    case State::colon:
    case State::after_value:
      return step_structure(c);
    case State::string:
    case State::escape:
    case State::low_surrogate_backslash:
    case State::low_surrogate_u:
      return step_string(c);
    case State::hex:
      return step_hex(c);
    case State::literal:
      if (c != literal_.front()) return false;
      literal_.remove_prefix(1);
      if (literal_.empty()) state_ = State::after_value;
      return true;
    default:
      return step_number(c);
  }
}

bool JsonScanner::step_structure(char c) {
  if (is_space(c)) return true;
  switch (state_) {
    case State::array_first:
      if (c == ']') return close(false);
      return begin_value(c);
    case State::object_first:
      if (c == '}') return close(true);
      [[fallthrough]];
    case State::key:
      if (c != '"') return false;
      string_is_key_ = true;
      state_ = State::string;
      return true;
    case State::colon:
      if (c != ':') return false;
      state_ = State::value;
      return true;
    case State::after_value:
      if (open_.empty()) return false;
      if (c == ',') {
        state_ = open_.back() ? State::key : State::value;
        return true;
      }
      return (c == '}' || c == ']') && close(c == '}');
    default:
      return begin_value(c);
  }
}

bool JsonScanner::begin_value(char c) {
  if (c == '{') return open(true);
  if (c == '[') return open(false);
  if (c == '"') {
    is_scalar_ = false;
    string_is_key_ = false;
    state_ = State::string;
  } else if (c == '-') {
    state_ = State::minus;
  } else if (c == '0') {
    state_ = State::zero;
  } else if (is_digit(c)) {
    state_ = State::digits;
  } else if (c == 't' || c == 'f' || c == 'n') {
    literal_ = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
    state_ = State::literal;
  } else {
    return false;
  }
  return true;
}

bool JsonScanner::open(bool is_object) {
  if (static_cast<int>(open_.size()) >= max_depth_) return false;
  is_scalar_ = false;
  open_.push_back(is_object);
  state_ = is_object ? State::object_first : State::array_first;
  return true;
}

bool JsonScanner::close(bool is_object) {
  if (open_.back() != is_object) return false;
  open_.pop_back();
  state_ = State::after_value;
  return true;
}

bool JsonScanner::step_string(char c) {
  if (state_ == State::low_surrogate_backslash) {
    state_ = State::low_surrogate_u;
    return c == '\\';
  }
  if (state_ == State::escape || state_ == State::low_surrogate_u) {
    if (c == 'u') {
      expects_low_surrogate_ = state_ == State::low_surrogate_u;
      hex_digits_ = 0;
      code_ = 0;
      state_ = State::hex;
      return true;
    }
    if (state_ == State::low_surrogate_u) return false;
    state_ = State::string;
    return std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos;
  }
  if (c == '"')
    state_ = string_is_key_ ? State::colon : State::after_value;
  else if (c == '\\')
    state_ = State::escape;
  else if (static_cast<unsigned char>(c) < 0x20)
    return false;
  return true;
}

bool JsonScanner::step_hex(char c) {
  unsigned digit = 0;
  if (is_digit(c))
    digit = static_cast<unsigned>(c - '0');
  else if (c >= 'a' && c <= 'f')
    digit = static_cast<unsigned>(c - 'a') + 10;
  else if (c >= 'A' && c <= 'F')
    digit = static_cast<unsigned>(c - 'A') + 10;
  else
    return false;
  code_ = code_ * 16 + digit;
  if (++hex_digits_ < 4) return true;
  const bool is_low = code_ >= 0xDC00 && code_ <= 0xDFFF;
  const bool is_high = code_ >= 0xD800 && code_ <= 0xDBFF;
  if (is_low != expects_low_surrogate_) return false;
  state_ = is_high ? State::low_surrogate_backslash : State::string;
  return true;
}

bool JsonScanner::step_number(char c) {
  switch (state_) {
    case State::minus:
      state_ = c == '0' ? State::zero : State::digits;
      return is_digit(c);
    case State::point:
      state_ = State::fraction;
      return is_digit(c);
    case State::exponent:
      if (c == '+' || c == '-') {
        state_ = State::exponent_sign;
        return true;
      }
      [[fallthrough]];
    case State::exponent_sign:
      state_ = State::exponent_digits;
      return is_digit(c);
    default:
      break;
  }
  if (is_digit(c) && state_ != State::zero) return true;
  if (c == '.' && (state_ == State::zero || state_ == State::digits)) {
    state_ = State::point;
    return true;
  }
  if ((c == 'e' || c == 'E') && state_ != State::exponent_digits) {
    state_ = State::exponent;
    return true;
  }
  state_ = State::after_value;
  return step_structure(c);
}

}  // namespace fathom
