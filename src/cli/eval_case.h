// The lines of an evaluation file, and the table of what came of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace fathom {

struct EvalCase {
  int64_t line = 0;  // from 1
  std::string task;
  std::string prompt;
  std::string expected;        // the whole completion, end-of-sentence text included, or the text's beginning
  bool is_completion = false;  // a text to continue, compared as far as `expected` goes
  bool must_be_exact = false;  // the reference computation is, by a margin that rounding does not bridge
  std::optional<Json> request;  // messages and their options, to be rendered to `prompt`
  std::string skipped;          // why this build cannot run it; empty when it can
};

/// Reads JSON lines with the fields of models/demo/eval.jsonl. `what` names the file in messages.
/// Errors: format.
Result<std::vector<EvalCase>> parse_eval(std::string_view text, std::string_view what);

class EvalTable {
 public:
  void add(const EvalCase& c, bool exact, std::string found);
  void skip(const EvalCase& c);

  /// Lines that must be exact and are not.
  int64_t num_regressions() const;
  Json to_json(double seconds) const;
  std::string to_text(double seconds) const;

 private:
  struct Task {
    int64_t exact = 0;
    int64_t total = 0;  // run
    int64_t skipped = 0;
    std::string reason;  // of the skipped
  };
  struct Miss {
    EvalCase c;
    std::string found;
  };
  std::map<std::string, Task> tasks_;
  std::vector<Miss> misses_;
};

}  // namespace fathom
