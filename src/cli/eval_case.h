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
#include "engine/drafting.h"

namespace fathom {

struct EvalCase {
  int64_t line = 0;  // from 1
  std::string task;
  std::string prompt;
  std::string expected;        // the whole completion, end-of-sentence text included, or the text's beginning
  bool is_completion = false;  // a text to continue, compared as far as `expected` goes
  bool must_be_exact = false;  // the reference computation is, by a clear margin where one is given
  std::optional<Json> request;  // messages and their options, to be rendered to `prompt`
  std::string image;            // a file, relative to the evaluation's; or empty
};

/// Reads JSON lines with the fields of models/demo/eval.jsonl. `what` names the file in messages.
/// Errors: format.
Result<std::vector<EvalCase>> parse_eval(std::string_view text, std::string_view what);

/// How one case came out.
struct EvalOutcome {
  std::string found;
  bool exact = false;
  /// At the first token that differs: by how much this build's logit for its own choice exceeds that for the
  /// expected one. Absent when exact, or when the same text is spelled with other tokens.
  std::optional<double> margin;
  DraftStats drafts;
};

class EvalTable {
 public:
  void add(const EvalCase& c, EvalOutcome outcome);
  void skip(const EvalCase& c, std::string reason);

  /// What drafting came to in all.
  DraftStats drafts() const;
  /// Lines that must be exact, are not, and differ by more than another order of summation explains.
  int64_t num_regressions() const;
  /// Lines that were run.
  int64_t num_run() const;
  Json to_json(double seconds) const;
  std::string to_text(double seconds) const;

 private:
  struct Task {
    int64_t exact = 0;
    int64_t total = 0;  // run
    int64_t skipped = 0;
    std::string reason;  // of the skipped
    DraftStats drafts;
  };
  struct Miss {
    EvalCase c;
    EvalOutcome outcome;
    bool regression() const;
    std::string remark() const;
  };
  std::map<std::string, Task> tasks_;
  std::vector<Miss> misses_;
};

}  // namespace fathom
