// The engine's view of a model: sequences of tokens that grow, and logits after their last tokens.
//
// A thin seam, so that the engine can be tested without weights. Knows nothing of layers, caches or text;
// images only pass through.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/image_placement.h"

namespace fathom {

/// Asked for each draft in turn: its f32 logits [vocab_size] and the logit of "it will be accepted". Gives
/// the token to draft, or nothing to end the drafts before it.
using ChooseDraft =
    std::function<Result<std::optional<int32_t>>(std::span<const float> logits, float confidence)>;

/// One growing sequence of tokens and the state that a model keeps for it.
class LanguageSequence {
 public:
  virtual ~LanguageSequence() = default;
  /// Appends `ids` (at least one, each in the vocabulary, not more than the model has room for). `images` has
  /// those of the whole sequence, or at least those that reach into `ids`. Gives the
  /// f32 logits [num_logits, vocab_size] that follow each of the last `num_logits` of them, valid until the
  /// next call on any sequence of the model. After an error the sequence is unusable.
  virtual Result<std::span<const float>> extend(std::span<const int32_t> ids, int64_t num_logits,
                                                std::span<const ImagePlacement> images = {}) = 0;

  /// Takes back the last `n` tokens, at most LanguageModel::max_drafts() of the last extend call: the
  /// sequence is as if they had never been.
  virtual void rewind(int64_t n) = 0;

  /// Guesses at most `max_drafts` tokens (1 to the model's) that follow `token`, which follows the sequence.
  /// The sequence stays as it is, and stays usable after an error.
  virtual Result<std::vector<int32_t>> draft(int32_t token, int64_t max_drafts,
                                             const ChooseDraft& choose) = 0;
};

/// What drafting costs, in passes of one row.
struct DraftCosts {
  double draft = 0;  // drafting, whatever its number of tokens
  double row = 0;    // one more row in a pass
};

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;
  virtual int64_t vocab_size() const = 0;
  /// The most tokens one sequence may hold.
  virtual int64_t max_length() const = 0;
  /// The most tokens that can be drafted at once; 0: the model does not draft.
  virtual int64_t max_drafts() const = 0;
  virtual DraftCosts draft_costs() const = 0;
  virtual Result<std::unique_ptr<LanguageSequence>> new_sequence() = 0;
};

/// Turns tokens into text one by one, holding back incomplete characters.
class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  virtual std::string push(int32_t id) = 0;
  /// What was held back at the end of the tokens.
  virtual std::string finish() = 0;
};

}  // namespace fathom
