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

struct JsonLimits {
  int max_depth = 64;  // nesting of arrays and objects
};

/// Parses one JSON text. `what` names it in messages ("config.json"). Errors: format.
Result<Json> parse_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});

}  // namespace fathom
