// Which tokens to draft, and how many are worth a row of the next pass (spec 4).
//
// A draft is what the request's own sampler would draw from the draft logits. The target's draw at that
// position uses the same random numbers and knows nothing of the draft, so drafts decide how fast an answer
// comes and never what it is - sampled or greedy, however many, whatever they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/language_model.h"
#include "sampling/sampler.h"

namespace fathom {

/// How a generation drafts.
struct DraftSettings {
  int64_t max_drafts = 0;  // a pass; 0: off. The model may set a lower limit
  bool adaptive = true;    // draft only as many as will pay, going by the model's confidence
};

/// What drafting came to.
struct DraftStats {
  int64_t passes = 0;    // of the main model after the prompt's, each over a token and its drafts
  int64_t offered = 0;   // drafts in them
  int64_t accepted = 0;  // those that were the answer's next tokens
  int64_t settled = 0;   // the answer's tokens that they computed: each pass's own and its accepted drafts
  std::string problem;   // why drafting stopped; empty when it did not

  double mean_offered() const { return ratio(offered, passes); }
  double mean_accepted() const { return ratio(accepted, passes); }
  /// Passes of the main model for every token that they settled; 1 without drafts.
  double passes_per_token() const { return ratio(passes, settled); }

  DraftStats& operator+=(const DraftStats& other);

 private:
  static double ratio(int64_t a, int64_t b) {
    return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
  }
};

/// Decides, draft by draft, whether one more pays: whether it raises the tokens expected of the next pass
/// more than its cost. Pure arithmetic.
class DraftDepth {
 public:
  explicit DraftDepth(DraftCosts costs) : costs_(costs), spent_(1 + costs.draft) {}
  /// Takes the logit of "this draft will be accepted, if those before it are".
  bool one_more(float confidence);

 private:
  DraftCosts costs_;
  double spent_;
  double reached_ = 1;   // probability that all drafts so far are accepted
  double expected_ = 1;  // tokens of the pass
};

/// Drafts after `token`, the last that `sampler` accepted, which follows `sequence`; at most `most` (at least
/// 1). Errors: those of the model, and format for logits that cannot be drawn from.
Result<std::vector<int32_t>> draft_tokens(LanguageSequence& sequence, const Sampler& sampler, int32_t token,
                                          int64_t most, const DraftSettings& settings, DraftCosts costs,
                                          SamplerScratch& scratch);

}  // namespace fathom
