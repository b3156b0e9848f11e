// The engine's view of a model: sequences of tokens that grow, and logits after their last token.
//
// A thin seam, so that the engine can be tested without weights. Knows nothing of layers, caches or text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace fathom {

/// One growing sequence of tokens and the state that a model keeps for it.
class LanguageSequence {
 public:
  enum class Want { nothing, last_logits };

  virtual ~LanguageSequence() = default;
  /// Appends `ids` (at least one, each in the vocabulary, not more than the model has room for). With
  /// Want::last_logits gives the f32 logits [vocab_size] that follow the last of them, valid until the next
  /// call on any sequence of the model; otherwise an empty span. After an error the sequence is unusable.
  virtual Result<std::span<const float>> extend(std::span<const int32_t> ids, Want want) = 0;
};

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;
  virtual int64_t vocab_size() const = 0;
  /// The most tokens one sequence may hold.
  virtual int64_t max_length() const = 0;
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
