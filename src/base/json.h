// Strict JSON reading for files and requests from outside.
//
// On top of nlohmann::json: a nesting limit, refusal of duplicate keys and of invalid UTF-8, and
// positions in messages. Objects keep their key order, which chat rendering needs.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/result.h"

namespace fathom {

using Json = nlohmann::ordered_json;

enum class DuplicateKeys {
  refuse,
  last_wins,  // the last value, in the place of the first; for text that a model wrote
};

struct JsonLimits {
  int max_depth = 64;  // nesting of arrays and objects
  DuplicateKeys duplicate_keys = DuplicateKeys::refuse;
};

/// True for an integer beyond 64 bits. parse_json() keeps one digit for digit, as a binary value (which no
/// JSON text can be otherwise), since a double would change it; it is not a number to nlohmann's queries.
bool is_big_integer(const Json& value);

/// The decimal text of such an integer, with its sign; valid as long as `value`.
std::string_view big_integer_text(const Json& value);

/// Parses one JSON text. `what` names it in messages ("config.json"). Errors: format.
Result<Json> parse_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});

}  // namespace fathom
