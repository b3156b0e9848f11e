// From one row of logits to a token: penalties, filters and the draw of one request.
//
// The order is fixed, and is the one that users of Hugging Face transformers and vLLM know:
//   1. logit_bias        added
//   2. repetition        tokens of prompt or output: positive logits divided, others multiplied
//   3. frequency, presence   output tokens: minus frequency * count, minus presence
//   4. temperature       logits divided (0: the largest logit wins, the lower id on a tie; steps 5-7 drop
//   out)
//   5. top_k             the k largest
//   6. top_p             of those, renormalized: the fewest most probable whose sum reaches p, at least one
//   7. min_p             of those: probability at least min_p times the largest
// Everywhere "larger" means the larger logit, or the lower id among equals, so exactly k tokens pass top_k.
// All arithmetic is f64. Knows nothing of models or text.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "sampling/params.h"
#include "sampling/random_stream.h"

namespace fathom {

/// A token that may be drawn.
struct Candidate {
  int32_t id;
  double probability;  // > 0; a distribution's sum to 1 up to rounding
};

/// Buffers that samplers share, one at a time; they grow to a few times the vocabulary and stay.
class SamplerScratch {
 public:
  /// The distribution of the last Sampler call, ids ascending; valid until the next call.
  std::span<const Candidate> candidates() const { return candidates_; }

 private:
  friend class Sampler;
  std::vector<double> logits_;   // after bias and penalties
  std::vector<int32_t> order_;   // ids, the largest logits first as far as a filter needed it
  std::vector<double> weights_;  // of order_: exp((logit - largest) / temperature)
  std::vector<Candidate> candidates_;
};

/// The sampling state of one request: its parameters and what has been said so far.
class Sampler {
 public:
  /// `prompt` counts for repetition_penalty; its ids and those of accept() must be in [0, vocab_size).
  /// `stream` separates several answers to one request. Errors: those of SamplingParams::validate, and
  /// invalid_argument for a prompt id outside the vocabulary.
  static Result<Sampler> make(SamplingParams params, int64_t vocab_size, std::span<const int32_t> prompt,
                              uint32_t stream = 0);

  /// The distribution that the next token is drawn from, given `logits` [vocab_size], in
  /// scratch.candidates(). Infinite logits are taken as limits: tokens at +inf share all probability equally.
  /// Errors: format, when a logit is NaN or none is above -inf (the model's output is broken).
  Status distribution(std::span<const float> logits, SamplerScratch& scratch) const;

  /// Draws the next token from distribution(); repeating the call repeats the draw. accept() moves on.
  /// The draw is a function of the distribution and of (seed, stream, position) alone.
  Result<int32_t> sample(std::span<const float> logits, SamplerScratch& scratch) const;

  /// Appends `id` to the output: it counts for the penalties, and the next draw uses the next position.
  void accept(int32_t id);

  /// Tokens accepted so far; the position of the next draw.
  uint64_t num_accepted() const { return num_accepted_; }
  const SamplingParams& params() const { return params_; }
  const RandomStream& random() const { return random_; }

 private:
  struct Counts {
    bool in_prompt = false;
    int64_t in_output = 0;
  };

  Sampler(SamplingParams params, int64_t vocab_size, uint32_t stream)
      : params_(std::move(params)), vocab_size_(vocab_size), random_(params_.seed, stream) {}
  Result<double> adjust(std::span<const float> logits, std::vector<double>& out) const;
  size_t filter(double largest, SamplerScratch& scratch) const;

  SamplingParams params_;
  int64_t vocab_size_;
  RandomStream random_;
  std::unordered_map<int32_t, Counts> counts_;  // kept only when a penalty is on
  uint64_t num_accepted_ = 0;
};

/// Draws one of `candidates` (at least one) at `position` of `random`: every token id has an arrival time
/// there, exponential with its probability as the rate, and the first to arrive wins - with exactly its
/// probability. Similar distributions mostly have the same winner, because a token's luck at a position does
/// not depend on who else runs. So a draft model and the target that draw with one stream agree about as
/// often as two draws can, and the target need not know of the draft at all.
int32_t race(std::span<const Candidate> candidates, const RandomStream& random, uint64_t position);

}  // namespace fathom
