// How fast a model directory answers: tokens per second of its prompt and of its answer.
#pragma once

#include <functional>

#include "base/result.h"
#include "bench/quiet_gate.h"
#include "model/model.h"

namespace fathom::bench {

struct ModelSpeedOptions {
  int64_t prompt_tokens = 512;  // at least 1
  int64_t chunk_rows = 128;     // rows of the prompt that are computed at once
  Effort effort;                // for prefill, and again for decode; an interrupt waits for a chunk
};

struct ModelSpeed {
  int64_t prompt_tokens = 0;
  Rate prefill;  // prompt tokens per second, into an empty sequence
  Rate decode;   // tokens per second of one sequence right after that prompt, without drafts
  // What a step of decode reads at least: every weight that it multiplies with, once. Experts are those of a
  // token; tables are not counted.
  double decode_bytes = 0;
};

/// Errors: invalid_argument where prompt and a token of answer do not fit the model's context.
Status check_prompt_tokens(const ModelConfig& config, int64_t prompt_tokens);

/// With random token ids: what they are changes no speed but that of experts in a cache. Errors:
/// those of check_prompt_tokens and of Model::forward, cancelled.
Result<ModelSpeed> measure_model(QuietGate& gate, const Model& model, const ModelSpeedOptions& options,
                                 const std::function<void(std::string_view)>& step);

}  // namespace fathom::bench
