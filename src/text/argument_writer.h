// Writes the arguments of a tool call as JSON text while the parameters of a <｜DSML｜ invoke> block arrive.
//
// Shared by the strict and the streaming parser, so that both write the same text. What was written is at
// every moment the beginning of a JSON object, and a whole one only after end().
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "text/json_scanner.h"

namespace fathom {

enum class ParameterKind { text, json };  // string="true", string="false"

class ArgumentWriter {
 public:
  /// Starts the next parameter and appends its key to `out`; false, with nothing written, for a key that the
  /// call has already.
  bool open(std::string_view key, ParameterKind kind, std::string& out);

  /// Takes a piece of the value (valid UTF-8, split anywhere) and appends what is certain of it to `out`.
  /// Returns how many bytes were taken; less than all means that a JSON value broke there after its
  /// beginning had been written, and the call cannot be finished. A JSON value that breaks before that (a
  /// bare word, most often) is written as a string of its text.
  size_t value(std::string_view text, std::string& out);

  /// Ends the value; false when a JSON value stopped in the middle: the call cannot be finished.
  bool close(std::string& out);

  /// Ends the object.
  void end(std::string& out);

  /// The text simply stops: appends what was held back of the value. The object stays unfinished.
  void abandon(std::string& out);

  /// Whether some value had to be rewritten as a string.
  bool repaired() const { return repaired_; }

 private:
  void become_text(std::string& out);

  std::unordered_set<std::string> keys_;
  bool is_text_ = true;
  std::optional<JsonScanner> scanner_;
  std::string held_;  // the beginning of a JSON value while it is a scalar
  bool repaired_ = false;
};

}  // namespace fathom
