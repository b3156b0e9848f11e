#include "cli/eval_case.h"

#include <fmt/format.h>

#include <utility>

namespace fathom {
namespace {

// Below this distance between the two largest logits another order of summation may choose the other token.
constexpr double clear_margin = 0.05;

Result<std::string> text_field(const Json& line, const char* field, std::string_view where) {
  const auto found = line.find(field);
  if (found == line.end() || !found->is_string())
    return fail(ErrorCode::format, "{}: {}: expected a string", where, field);
  return found->get<std::string>();
}

Result<EvalCase> parse_case(const Json& line, int64_t number, std::string_view where) {
  if (!line.is_object()) return fail(ErrorCode::format, "{}: expected an object", where);
  EvalCase out;
  out.line = number;
  FATHOM_ASSIGN(out.task, text_field(line, "task", where));
  FATHOM_ASSIGN(out.prompt, text_field(line, "prompt", where));
  out.is_completion = line.contains("oracle_greedy");
  FATHOM_ASSIGN(out.expected, text_field(line, out.is_completion ? "oracle_greedy" : "expected", where));
  if (line.contains("image")) {
    FATHOM_ASSIGN(out.image, text_field(line, "image", where));
    if (out.image.empty() || out.image.find('\0') != std::string::npos)
      return fail(ErrorCode::format, "{}: image: expected a file's name", where);
  }
  if (line.contains("messages")) out.request = line;
  const auto flag = line.find("oracle_exact");
  const bool oracle_exact = flag != line.end() && flag->is_boolean() && flag->get<bool>();
  const auto margin = line.find("oracle_min_margin");
  const bool close = margin != line.end() && margin->is_number() && margin->get<double>() < clear_margin;
  out.must_be_exact = (oracle_exact || out.is_completion) && !close;
  return out;
}

}  // namespace

Result<std::vector<EvalCase>> parse_eval(std::string_view text, std::string_view what) {
  std::vector<EvalCase> cases;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}, line {}", what, number);
    FATHOM_ASSIGN(const Json parsed, parse_json(line, where));
    FATHOM_ASSIGN(EvalCase c, parse_case(parsed, number, where));
    cases.push_back(std::move(c));
  }
  return cases;
}

bool EvalTable::Miss::regression() const {
  return c.must_be_exact && !(outcome.margin && *outcome.margin < clear_margin);
}

std::string EvalTable::Miss::remark() const {
  if (!c.must_be_exact) return "not exact in the reference either, or by a small margin";
  if (!regression()) return fmt::format("the two choices differ by {:.4f} in logit", *outcome.margin);
  return "exact in the reference, by a clear margin";
}

void EvalTable::add(const EvalCase& c, EvalOutcome outcome) {
  Task& task = tasks_[c.task];
  ++task.total;
  task.drafts += outcome.drafts;
  if (outcome.exact)
    ++task.exact;
  else
    misses_.push_back({c, std::move(outcome)});
}

DraftStats EvalTable::drafts() const {
  DraftStats sum;
  for (const auto& [name, task] : tasks_) sum += task.drafts;
  return sum;
}

void EvalTable::skip(const EvalCase& c, std::string reason) {
  Task& task = tasks_[c.task];
  ++task.skipped;
  task.reason = std::move(reason);
}

int64_t EvalTable::num_regressions() const {
  int64_t count = 0;
  for (const Miss& miss : misses_) count += miss.regression() ? 1 : 0;
  return count;
}

int64_t EvalTable::num_run() const {
  int64_t count = 0;
  for (const auto& [name, task] : tasks_) count += task.total;
  return count;
}

Json EvalTable::to_json(double seconds) const {
  Json tasks = Json::object();
  for (const auto& [name, task] : tasks_) {
    tasks[name] = {{"exact", task.exact}, {"total", task.total}, {"skipped", task.skipped}};
    if (task.skipped > 0) tasks[name]["reason"] = task.reason;
    if (task.drafts.offered > 0 || !task.drafts.problem.empty())
      tasks[name]["draft"] = {{"passes", task.drafts.passes},
                              {"offered", task.drafts.offered},
                              {"accepted", task.drafts.accepted},
                              {"mean_accepted", task.drafts.mean_accepted()},
                              {"passes_per_token", task.drafts.passes_per_token()}};
    if (!task.drafts.problem.empty()) tasks[name]["draft"]["problem"] = task.drafts.problem;
  }
  Json misses = Json::array();
  for (const Miss& miss : misses_)
    misses.push_back({{"line", miss.c.line},
                      {"task", miss.c.task},
                      {"expected", miss.c.expected},
                      {"found", miss.outcome.found},
                      {"regression", miss.regression()},
                      {"remark", miss.remark()}});
  return {{"tasks", tasks}, {"misses", misses}, {"regressions", num_regressions()}, {"seconds", seconds}};
}

std::string EvalTable::to_text(double seconds) const {
  std::string out = fmt::format("{:<16}{:>7}{:>7}{:>9}{:>9}{:>16}\n", "task", "exact", "total", "skipped",
                                "passes", "drafts accepted");
  const auto line = [&](std::string_view name, const Task& task) {
    out += fmt::format("{:<16}{:>7}{:>7}{:>9}{:>9}{:>16.2f}{}{}\n", name, task.exact, task.total,
                       task.skipped, task.drafts.passes, task.drafts.mean_accepted(),
                       task.skipped > 0 ? "  " : "", task.reason);
  };
  Task sum;
  for (const auto& [name, task] : tasks_) {
    line(name, task);
    sum.exact += task.exact;
    sum.total += task.total;
    sum.skipped += task.skipped;
  }
  sum.drafts = drafts();
  line("sum", sum);
  if (sum.drafts.passes > 0)
    out += fmt::format("{:.4f} passes of the model for each token; 1 / (1 + drafts accepted) = {:.4f}\n",
                       sum.drafts.passes_per_token(), 1 / (1 + sum.drafts.mean_accepted()));
  for (const Miss& miss : misses_)
    out += fmt::format("\nline {} ({}): {}\n  expected {}\n  found    {}\n", miss.c.line, miss.c.task,
                       miss.remark(), Json(miss.c.expected).dump(), Json(miss.outcome.found).dump());
  return out + fmt::format("\n{:.1f} seconds\n", seconds);
}

}  // namespace fathom
