// What a request may ask of sampling, and the rules each field obeys.
//
// Knows nothing of models, tokenizers or text; ids are checked against a vocabulary size alone.
#pragma once

#include <cstdint>
#include <map>

#include "base/result.h"

namespace fathom {

/// The defaults leave the model's distribution as it is. Field names are those of the HTTP interfaces that
/// serve language models, and so are the meanings; sampler.h fixes the order in which they apply.
struct SamplingParams {
  double temperature = 1.0;                  // >= 0; 0: greedy
  int64_t top_k = 0;                         // >= 0; 0: off
  double top_p = 1.0;                        // 0..1; 1: off, 0: only the most probable token
  double min_p = 0.0;                        // 0..1; 0: off
  double repetition_penalty = 1.0;           // > 0; 1: off; over prompt and output
  double presence_penalty = 0.0;             // -2..2; 0: off; over output
  double frequency_penalty = 0.0;            // -2..2; 0: off; over output
  std::map<int32_t, float> logit_bias = {};  // token id -> -100..100
  uint64_t seed = 0;

  bool greedy() const { return temperature == 0; }
  bool uses_counts() const {
    return repetition_penalty != 1 || presence_penalty != 0 || frequency_penalty != 0;
  }

  /// Checks every field against its rule and the keys of logit_bias against `vocab_size`.
  /// Errors: invalid_argument, naming the field, the rule and the value.
  Status validate(int64_t vocab_size) const;
};

}  // namespace fathom
