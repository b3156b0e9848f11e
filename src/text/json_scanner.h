// Follows the text of one JSON value as it arrives and says up to where it still can be one.
//
// Builds nothing: a few bytes of state and one bit for each open bracket. Accepts what base/json.h accepts
// (strict grammar, no unpaired surrogate escapes, a nesting limit), and beyond it repeated keys and numbers
// too large for a double. Expects valid UTF-8.
#pragma once

#include <string_view>
#include <vector>

namespace fathom {

class JsonScanner {
 public:
  /// `max_depth`: nesting of arrays and objects.
  explicit JsonScanner(int max_depth) : max_depth_(max_depth) {}

  /// Takes the next piece; returns how many of its bytes continue the value. Less than all: the byte after
  /// them cannot follow, and nothing more may be taken.
  size_t take(std::string_view text);

  /// Whether what was taken is a whole value. More can still follow: spaces, or further digits.
  bool is_whole() const;

  /// Whether the value is a number, true, false, null or nothing yet: short texts that make sense only whole.
  bool is_scalar() const { return is_scalar_; }

 private:
  enum class State {
    value,         // a value must come
    array_first,   // a value or ]
    object_first,  // a key or }
    key,           // a key must come
    colon,
    after_value,  // a comma or a closing bracket; only spaces when nothing is open
    string,
    escape,
    hex,
    low_surrogate_backslash,
    low_surrogate_u,
    literal,
    minus,
    zero,
    digits,
    point,
    fraction,
    exponent,
    exponent_sign,
    exponent_digits,
  };

  bool step(char c);
  bool step_structure(char c);
  bool step_string(char c);
  bool step_hex(char c);
  bool step_number(char c);
  bool begin_value(char c);
  bool open(bool is_object);
  bool close(bool is_object);

  int max_depth_;
  State state_ = State::value;
  bool is_scalar_ = true;
  bool string_is_key_ = false;
  bool expects_low_surrogate_ = false;
  int hex_digits_ = 0;  // read of the current escape
  unsigned code_ = 0;
  std::string_view literal_;  // what is left of true, false or null
  std::vector<bool> open_;    // true: an object
};

}  // namespace fathom
