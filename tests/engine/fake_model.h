// A model for tests of the engine: it has a rule instead of weights, and keeps a record of its calls.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/language_model.h"

namespace fathom {

/// After the tokens `ids`, the token rule(ids) has logit 1 and all others 0.
class FakeModel : public LanguageModel {
 public:
  using Rule = std::function<int32_t(const std::vector<int32_t>& ids)>;
  FakeModel(int64_t vocab_size, int64_t max_length, Rule rule)
      : rule_(std::move(rule)), vocab_size_(vocab_size), max_length_(max_length) {}

  int64_t vocab_size() const override { return vocab_size_; }
  int64_t max_length() const override { return max_length_; }
  Result<std::unique_ptr<LanguageSequence>> new_sequence() override {
    ++num_sequences;
    return std::make_unique<Sequence>(*this);
  }

  int num_sequences = 0;
  std::vector<size_t> chunks;   // tokens of every extend call
  size_t fail_at_length = 0;    // 0: never
  std::vector<float> override;  // logits to give instead of the rule's, when not empty

 private:
  class Sequence : public LanguageSequence {
   public:
    explicit Sequence(FakeModel& model) : model_(model) {}
    Result<std::span<const float>> extend(std::span<const int32_t> ids, Want want) override {
      model_.chunks.push_back(ids.size());
      ids_.insert(ids_.end(), ids.begin(), ids.end());
      if (model_.fail_at_length > 0 && ids_.size() >= model_.fail_at_length)
        return fail(ErrorCode::io, "layers.3.weight: cannot be read");
      if (want == Want::nothing) return std::span<const float>{};
      model_.logits_.assign(static_cast<size_t>(model_.vocab_size_), 0.0f);
      model_.logits_[static_cast<size_t>(model_.rule_(ids_))] = 1.0f;
      if (!model_.override.empty()) model_.logits_ = model_.override;
      return std::span<const float>(model_.logits_);
    }

   private:
    FakeModel& model_;
    std::vector<int32_t> ids_;
  };

  Rule rule_;
  int64_t vocab_size_, max_length_;
  std::vector<float> logits_;
};

/// Token i is the i-th of some strings; the last one pushed is held back until the next, as a half character.
class FakeDecoder : public TokenDecoder {
 public:
  explicit FakeDecoder(std::vector<std::string> words) : words_(std::move(words)) {}
  std::string push(int32_t id) override {
    std::string out = std::move(held_);
    held_ = words_[static_cast<size_t>(id)];
    if (held_ != "~") out += std::exchange(held_, {});
    return out;
  }
  std::string finish() override { return std::exchange(held_, {}); }

 private:
  std::vector<std::string> words_;
  std::string held_;
};

}  // namespace fathom
