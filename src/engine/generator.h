// One answer at a time: prefill the prompt, then sample, draft, decode and stop.
//
// Knows tokens and text pieces; nothing of chat formats, terminals or other requests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/drafting.h"
#include "engine/language_model.h"
#include "engine/prompt.h"
#include "sampling/params.h"
#include "sampling/sampler.h"

namespace fathom {

/// What is asked of one generation.
struct GenerateRequest {
  std::vector<int32_t> prompt;         // at least one id, each in the vocabulary
  std::vector<ImagePlacement> images;  // in the prompt; see engine/prompt.h
  SamplingParams sampling;
  uint32_t stream = 0;            // which of several answers to the prompt
  int64_t max_tokens = 0;         // at least 1; the context's end also ends the answer
  std::vector<std::string> stop;  // stop strings; their text is not part of the answer
  std::vector<int32_t> stop_ids;  // tokens that end the answer; part of its ids, not of its text
  DraftSettings drafting = {};    // changes how many passes an answer takes, never the answer
};

enum class FinishReason { stop_token, stop_string, max_tokens, context_full, cancelled };

/// "stop" for both stops, "length" for both limits, "cancelled": the words of the HTTP interfaces.
std::string_view finish_reason_name(FinishReason reason);

/// Called while a generation runs, on its thread. Each may be empty.
struct GenerateHooks {
  std::function<void(int64_t done, int64_t total)> prefill = {};  // tokens, from the first to the last chunk
  std::function<Status(std::string_view)> text = {};  // new text, never empty; an error ends the run
  std::function<bool()> cancelled = {};               // asked before every step
};

/// What came of it.
struct Generation {
  std::vector<int32_t> ids;  // the stop token included
  std::string text;
  FinishReason reason = FinishReason::max_tokens;
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt, those that the generator still held
  DraftStats drafts;
  double prefill_seconds = 0;
  double decode_seconds = 0;
};

class Generator {
 public:
  /// `model` must outlive the generator. A prompt is given to the model `prefill_chunk` tokens at a time:
  /// progress and cancelling have that grain, results do not depend on it.
  explicit Generator(LanguageModel& model, int64_t prefill_chunk = 128);

  /// Generates an answer to request.prompt. When the prompt continues the tokens (and images) of the last
  /// run, only the rest is computed. `decoder` gets the answer's tokens, stop tokens excepted, and must be
  /// fresh. A cancelled run is not an error. Errors: invalid_argument for a request that breaks a rule above
  /// or does not fit the model's context, those of the model, of the sampler, and of hooks.text.
  Result<Generation> run(const GenerateRequest& request, TokenDecoder& decoder,
                         const GenerateHooks& hooks = {});

 private:
  class Answer;

  Status check(const GenerateRequest& request) const;
  Result<std::span<const float>> prefill(const GenerateRequest& request, const GenerateHooks& hooks,
                                         Generation& out);
  std::vector<int32_t> draft(const GenerateRequest& request, const Sampler& sampler, const Answer& answer,
                             DraftStats& stats);
  Status settle(std::span<const float> logits, std::span<const int32_t> drafts, Sampler& sampler,
                Answer& answer, DraftStats& stats);
  Result<std::span<const float>> extend(std::span<const int32_t> ids, int64_t num_logits);
  void take_back(size_t n);
  void forget();

  LanguageModel& model_;
  int64_t prefill_chunk_;
  std::unique_ptr<LanguageSequence> sequence_;
  std::vector<int32_t> held_;  // the tokens of sequence_
  std::vector<ImagePlacement> held_images_;
  SamplerScratch scratch_;
};

}  // namespace fathom
