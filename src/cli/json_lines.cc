#include "cli/json_lines.h"

#include <fmt/format.h>
#include <unistd.h>

#include "cli/line_source.h"
#include "cli/remark.h"

namespace fathom {
namespace {

// nlohmann::json destroys and copies nested values recursively: the limit bounds the stack.
constexpr JsonLimits line_limits{.max_depth = 256};

Result<Json> answer_line(const std::string& line, int64_t number,
                         const std::function<Result<Json>(const Json&)>& answer) {
  FATHOM_ASSIGN(const Json request, parse_json(line, fmt::format("line {}", number), line_limits));
  if (!request.is_object())
    return fail(ErrorCode::invalid_argument, "line {}: expected an object, found {}", number,
                request.type_name());
  return answer(request);
}

}  // namespace

std::string json_line(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Status answer_json_lines(const Surroundings& surroundings,
                         const std::function<Result<Json>(const Json&)>& answer) {
  if (surroundings.env.stdin_terminal)
    remark(surroundings, "reading JSON lines from this terminal; Ctrl-D ends them");
  const auto lines = plain_lines(STDIN_FILENO, "standard input");
  for (int64_t number = 1;; ++number) {
    FATHOM_ASSIGN(const std::optional<std::string> line, lines->next(""));
    if (!line) return {};
    if (line->find_first_not_of(" \t\r") == std::string::npos) continue;
    Result<Json> answered = answer_line(*line, number, answer);
    const Json out = answered ? std::move(*answered) : Json{{"error", answered.error().message}};
    FATHOM_TRY(surroundings.out.write(json_line(out)));
    FATHOM_TRY(surroundings.out.flush());
  }
}

}  // namespace fathom
