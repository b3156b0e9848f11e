// The model behind the engine's seam: one sequence at a time, chunks of a fixed number of rows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/language_model.h"
#include "model/model.h"
#include "text/stream_decoder.h"

namespace fathom {

class ModelAdapter : public LanguageModel {
 public:
  /// `model` must outlive the adapter, and the adapter its sequences. Activations for `max_rows` rows at a
  /// time are allocated here. With `drafting`, where the model can, its sequences keep what drafts need.
  /// Errors: out_of_memory.
  static Result<std::unique_ptr<ModelAdapter>> create(const Model& model, int64_t max_rows, bool drafting);

  int64_t vocab_size() const override { return model_.config().vocab_size; }
  int64_t max_length() const override { return model_.config().max_seq_len; }
  int64_t max_drafts() const override;
  DraftCosts draft_costs() const override { return exact_cpu_costs; }
  Result<std::unique_ptr<LanguageSequence>> new_sequence() override;

 private:
  class AdaptedSequence;
  static constexpr DraftCosts exact_cpu_costs = {.draft = 0.45, .row = 0.3};  // docs/performance.md

  ModelAdapter(const Model& model, Workspace workspace, bool drafting)
      : model_(model), workspace_(std::move(workspace)), drafting_(drafting) {}

  const Model& model_;
  Workspace workspace_;
  bool drafting_;
  Logits logits_;  // of the last call
};

/// A tokenizer's stream of text behind the same seam. The tokenizer must outlive it.
class TokenizerDecoder : public TokenDecoder {
 public:
  explicit TokenizerDecoder(const Tokenizer& tokenizer, bool skip_special)
      : stream_(tokenizer, skip_special) {}
  std::string push(int32_t id) override { return stream_.push(id); }
  std::string finish() override { return stream_.finish(); }

 private:
  StreamDecoder stream_;
};

}  // namespace fathom
