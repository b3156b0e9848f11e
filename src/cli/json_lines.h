// Requests as JSON lines on standard input, answers as JSON lines on standard output.
#pragma once

#include <functional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "cli/command.h"

namespace fathom {

/// Gives every line of standard input to `answer` as JSON, and writes what it gives as one line, at once, so
/// that the command can serve another program. A line that is not JSON, and an error of `answer`, become
/// {"error": message}. Empty lines are skipped. Errors: reading, writing, an interrupt.
Status answer_json_lines(const Surroundings& surroundings,
                         const std::function<Result<Json>(const Json&)>& answer);

/// One line of JSON text. Strings that are not UTF-8 are repaired, never refused.
std::string json_line(const Json& value);

}  // namespace fathom
