// A model for tests of the engine: it has rules instead of weights, and keeps a record of its calls.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/language_model.h"

namespace fathom {

/// After the tokens `ids`, the token rule(ids) has logit 1 and all others 0. Drafts with draft_rule, if set.
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
  int64_t max_drafts() const override { return draft_rule ? 8 : 0; }
  DraftCosts draft_costs() const override { return {.draft = 0.1, .row = 0.1}; }

  Rule draft_rule;
  float confidence = 10;
  std::string draft_failure;  // what drafting fails with, if anything
  int num_sequences = 0;
  std::vector<size_t> chunks;   // tokens of every extend call
  size_t num_images = 0;        // given to the last extend call
  size_t fail_at_length = 0;    // 0: never
  std::vector<float> override;  // logits to give instead of the rule's, when not empty

 private:
  class Sequence : public LanguageSequence {
   public:
    explicit Sequence(FakeModel& model) : model_(model) {}
    Result<std::span<const float>> extend(std::span<const int32_t> ids, int64_t num_logits,
                                          std::span<const ImagePlacement> images) override {
      model_.num_images = images.size();
      model_.chunks.push_back(ids.size());
      if (model_.fail_at_length > 0 && ids_.size() + ids.size() >= model_.fail_at_length)
        return fail(ErrorCode::io, "layers.3.weight: cannot be read");
      model_.logits_.clear();
      const auto vocab = static_cast<size_t>(model_.vocab_size_);
      for (size_t i = 0; i < ids.size(); ++i) {
        ids_.push_back(ids[i]);
        if (static_cast<int64_t>(ids.size() - i) > num_logits) continue;
        std::vector<float> row(vocab, 0.0f);
        row[static_cast<size_t>(model_.rule_(ids_))] = 1.0f;
        if (!model_.override.empty()) row = model_.override;
        model_.logits_.insert(model_.logits_.end(), row.begin(), row.end());
      }
      return std::span<const float>(model_.logits_);
    }
    void rewind(int64_t n) override { ids_.resize(ids_.size() - static_cast<size_t>(n)); }
    Result<std::vector<int32_t>> draft(int32_t token, int64_t max_drafts,
                                       const ChooseDraft& choose) override {
      if (!model_.draft_failure.empty()) return fail(ErrorCode::format, "{}", model_.draft_failure);
      std::vector<int32_t> ahead = ids_;
      ahead.push_back(token);
      std::vector<int32_t> drafts;
      while (std::cmp_less(drafts.size(), max_drafts)) {
        std::vector<float> row(static_cast<size_t>(model_.vocab_size_), 0.0f);
        row[static_cast<size_t>(model_.draft_rule(ahead))] = 1.0f;
        FATHOM_ASSIGN(const std::optional<int32_t> id, choose(row, model_.confidence));
        if (!id) break;
        drafts.push_back(*id);
        ahead.push_back(*id);
      }
      return drafts;
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
