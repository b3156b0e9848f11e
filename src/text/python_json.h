// JSON text as Python's json.dumps(value, ensure_ascii=False) writes it.
//
// Tool schemas, arguments and response formats reach the model in this spelling (spec 6), so every space
// and digit matters.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace fathom {

/// `value` on one line: separators ", " and ": ", key order kept, non-ASCII text as it is, floats as Python's
/// repr, integers of any size digit for digit (base/json.h). Recursion is as deep as `value`, which
/// parse_json() bounds.
std::string python_json(const Json& value);

/// Appends a JSON string, quotes included, and its inside without quotes. `text` is UTF-8. Escapes work
/// character by character: the pieces of a text, escaped one after the other, give the escaped whole.
void append_json_string(std::string& out, std::string_view text);
void append_json_escaped(std::string& out, std::string_view text);

}  // namespace fathom
