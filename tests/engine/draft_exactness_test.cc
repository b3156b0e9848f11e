// Drafting changes no answer, greedy or sampled, whether drafts are the model's own or forced ones.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>
#include <random>

#include "engine/generator.h"
#include "engine/model_adapter.h"
#include "tests/support/compute_path.h"
#include "tests/support/tiny_model.h"

namespace fathom {
namespace {

using testing::ComputePath;
using testing::TinyModel;

/// Passes everything on but drafts, which it takes from a known answer and spoils from some index on.
class ForcedDrafts : public LanguageModel {
 public:
  explicit ForcedDrafts(LanguageModel& model) : model_(model) {}

  /// `tokens`: prompt and answer. Drafts from index `right` of every block on are wrong.
  void force(std::vector<int32_t> tokens, size_t right) {
    tokens_ = std::move(tokens);
    right_ = right;
  }

  int64_t vocab_size() const override { return model_.vocab_size(); }
  int64_t max_length() const override { return model_.max_length(); }
  int64_t max_drafts() const override { return Sequence::max_rewind; }
  DraftCosts draft_costs() const override { return model_.draft_costs(); }
  Result<std::unique_ptr<LanguageSequence>> new_sequence() override {
    FATHOM_ASSIGN(auto inner, model_.new_sequence());
    return std::make_unique<Forced>(*this, std::move(inner));
  }

 private:
  class Forced : public LanguageSequence {
   public:
    Forced(ForcedDrafts& owner, std::unique_ptr<LanguageSequence> inner)
        : owner_(owner), inner_(std::move(inner)) {}
    Result<std::span<const float>> extend(std::span<const int32_t> ids, int64_t num_logits,
                                          std::span<const ImagePlacement>) override {
      length_ += ids.size();
      return inner_->extend(ids, num_logits);
    }
    void rewind(int64_t n) override {
      length_ -= static_cast<size_t>(n);
      inner_->rewind(n);
    }
    Result<std::vector<int32_t>> draft(int32_t, int64_t max_drafts, const ChooseDraft&) override {
      std::vector<int32_t> out;
      for (size_t i = 0; std::cmp_less(i, max_drafts); ++i) {
        const size_t at = length_ + 1 + i;
        const int32_t next = at < owner_.tokens_.size() ? owner_.tokens_[at] : 3;
        out.push_back(i < owner_.right_ ? next : 3 + (next + 17) % 1000);
      }
      return out;
    }

   private:
    ForcedDrafts& owner_;
    std::unique_ptr<LanguageSequence> inner_;
    size_t length_ = 0;
  };

  LanguageModel& model_;
  std::vector<int32_t> tokens_;
  size_t right_ = 0;
};

class NoText : public TokenDecoder {
 public:
  std::string push(int32_t) override { return {}; }
  std::string finish() override { return {}; }
};

Generation run(LanguageModel& model, const GenerateRequest& request) {
  NoText decoder;
  Generator generator(model);
  return TinyModel::take(generator.run(request, decoder));
}

std::vector<int32_t> random_prompt(std::mt19937& random) {
  std::vector<int32_t> ids{0};
  const size_t length = 1 + random() % 40;  // across the window of 16 and its ring of 24
  while (ids.size() < length) ids.push_back(static_cast<int32_t>(3 + random() % 1000));
  return ids;
}

GenerateRequest request_of(std::vector<int32_t> prompt, double temperature, uint64_t seed) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = temperature;
  request.sampling.seed = seed;
  request.max_tokens = 12;
  return request;
}

class DraftExactness : public ::testing::TestWithParam<ComputePath> {};
INSTANTIATE_TEST_SUITE_P(Paths, DraftExactness, ::testing::ValuesIn(testing::compute_paths()),
                         testing::path_name);

// Every length modulo the ratios, every depth, every way to be wrong, greedy and sampled.
TEST_P(DraftExactness, AnswersAreThoseWithoutDrafts) {
  TinyModel tiny(GetParam().ops(2));
  const auto plain = TinyModel::take(ModelAdapter::create(tiny.model(), 64, false));
  const auto drafting = TinyModel::take(ModelAdapter::create(tiny.model(), 64, true));
  ForcedDrafts forced(*plain);
  std::mt19937 random(2026);
  int64_t own_accepted = 0;
  // All prompts on the exact path and on the processor's best; a tenth on the others.
  const bool leading = !GetParam().isa || *GetParam().isa == best_isa();
  for (int i = 0; i < (leading ? FATHOM_PROMPTS : FATHOM_PROMPTS / 10); ++i) {
    SCOPED_TRACE(i);
    GenerateRequest request = request_of(random_prompt(random), i % 3 == 2 ? 0.7 : 0, 100 + i);
    const std::vector<int32_t> want = run(*plain, request).ids;
    std::vector<int32_t> tokens = request.prompt;
    tokens.insert(tokens.end(), want.begin(), want.end());

    const auto depth = static_cast<size_t>(1 + i % 8);
    request.drafting = {.max_drafts = static_cast<int64_t>(depth), .adaptive = false};
    const size_t right = std::array{depth, depth - 1, size_t{0}}[static_cast<size_t>(i / 8 % 3)];
    forced.force(tokens, right);
    const Generation out = run(forced, request);
    ASSERT_EQ(out.ids, want) << "right: " << right << " of " << depth;
    EXPECT_EQ(out.drafts.accepted == out.drafts.offered, right == depth);
    if (right == 0) {
      EXPECT_EQ(out.drafts.accepted, 0);
    }
    request.drafting.adaptive = i % 2 == 1;
    const Generation own = run(*drafting, request);
    ASSERT_EQ(own.ids, want);
    own_accepted += own.drafts.accepted;
  }
  RecordProperty("own_accepted", static_cast<int>(own_accepted));
}

/// A model with a memory: what it says after a prefix is computed once.
class Remembered : public LanguageModel {
 public:
  Remembered(TinyModel& tiny) : tiny_(tiny) {}
  int64_t vocab_size() const override { return tiny_.model().config().vocab_size; }
  int64_t max_length() const override { return 64; }
  int64_t max_drafts() const override { return 5; }
  DraftCosts draft_costs() const override { return {}; }
  Result<std::unique_ptr<LanguageSequence>> new_sequence() override {
    return std::make_unique<Recalled>(*this);
  }
  const std::vector<float>& logits(const std::vector<int32_t>& ids) {
    std::vector<float>& row = logits_[ids];
    if (row.empty()) {
      Sequence sequence = tiny_.sequence();
      row = tiny_.forward(sequence, ids, 1).values;
    }
    return row;
  }

 private:
  struct Draft {
    std::vector<float> logits;
    float confidence = 0;
  };
  /// What is drafted after `ids` and the drafts `ahead`; ids' last token is the one that is not computed yet.
  const Draft& draft(const std::vector<int32_t>& ids, const std::vector<int32_t>& ahead) {
    Draft& draft = drafts_[{ids, ahead}];
    if (!draft.logits.empty()) return draft;
    Sequence sequence = tiny_.sequence(true);
    tiny_.forward(sequence, std::span(ids).first(ids.size() - 1), 0);
    const DraftRequest request{&sequence, ids.back()};
    DraftBlock block = TinyModel::take(tiny_.model().begin_draft(tiny_.workspace(), {&request, 1}, 5));
    int32_t previous = ids.back();
    for (size_t i = 0;; ++i) {
      const DraftStep step = TinyModel::take(tiny_.model().next_draft(block, {&previous, 1}));
      if (i == ahead.size()) return draft = Draft{step.logits, step.confidence.front()};
      previous = ahead[i];
    }
  }

  class Recalled : public LanguageSequence {
   public:
    explicit Recalled(Remembered& owner) : owner_(owner) {}
    Result<std::span<const float>> extend(std::span<const int32_t> ids, int64_t num_logits,
                                          std::span<const ImagePlacement>) override {
      rows_.clear();
      for (size_t i = 0; i < ids.size(); ++i) {
        ids_.push_back(ids[i]);
        if (static_cast<int64_t>(ids.size() - i) > num_logits) continue;
        const std::vector<float>& row = owner_.logits(ids_);
        rows_.insert(rows_.end(), row.begin(), row.end());
      }
      return std::span<const float>(rows_);
    }
    void rewind(int64_t n) override { ids_.resize(ids_.size() - static_cast<size_t>(n)); }
    Result<std::vector<int32_t>> draft(int32_t token, int64_t max_drafts,
                                       const ChooseDraft& choose) override {
      std::vector<int32_t> known = ids_;
      known.push_back(token);
      std::vector<int32_t> drafts;
      while (std::cmp_less(drafts.size(), max_drafts)) {
        const Draft& draft = owner_.draft(known, drafts);
        FATHOM_ASSIGN(const std::optional<int32_t> id, choose(draft.logits, draft.confidence));
        if (!id) break;
        drafts.push_back(*id);
      }
      return drafts;
    }

   private:
    Remembered& owner_;
    std::vector<int32_t> ids_;
    std::vector<float> rows_;
  };

  TinyModel& tiny_;
  std::map<std::vector<int32_t>, std::vector<float>> logits_;
  std::map<std::pair<std::vector<int32_t>, std::vector<int32_t>>, Draft> drafts_;
};

// Probabilities of every answer of three tokens, by the chain rule.
std::map<std::vector<int32_t>, double> exact_distribution(Remembered& model, const GenerateRequest& request) {
  std::map<std::vector<int32_t>, double> answers{{{}, 1.0}};
  SamplerScratch scratch;
  for (int64_t i = 0; i < request.max_tokens; ++i) {
    std::map<std::vector<int32_t>, double> longer;
    for (const auto& [answer, probability] : answers) {
      Sampler sampler = TinyModel::take(Sampler::make(request.sampling, model.vocab_size(), request.prompt));
      std::vector<int32_t> ids = request.prompt;
      for (const int32_t id : answer) {
        sampler.accept(id);
        ids.push_back(id);
      }
      EXPECT_TRUE(sampler.distribution(model.logits(ids), scratch));
      for (const Candidate& c : scratch.candidates()) {
        std::vector<int32_t> next = answer;
        next.push_back(c.id);
        longer[next] = probability * c.probability;
      }
    }
    answers = std::move(longer);
  }
  return answers;
}

// The quantile at p = 0.01 of chi-square with n degrees of freedom (Wilson and Hilferty).
double chi_square_limit(double n) {
  return n * std::pow(1 - 2 / (9 * n) + 2.3263479 * std::sqrt(2 / (9 * n)), 3);
}

TEST(DraftSamples, FollowTheTargetsDistribution) {
  TinyModel demo(2, 64, std::string(FATHOM_SOURCE_DIR) + "/models/demo");
  Remembered model(demo);
  const Tokenizer& tokenizer = demo.model().tokenizer();
  GenerateRequest request =
      request_of(TinyModel::take(tokenizer.encode("<｜begin▁of▁sentence｜>Mara had a red")), 2.5, 0);
  request.sampling.top_k = 4;
  request.sampling.repetition_penalty = 1.2;
  request.sampling.presence_penalty = 0.4;
  request.max_tokens = 3;
  const auto want = exact_distribution(model, request);
  ASSERT_EQ(want.size(), 64u);

  const int samples = 20000;
  std::map<std::vector<int32_t>, int> got;
  int64_t accepted = 0;
  for (int i = 0; i < samples; ++i) {
    request.sampling.seed = static_cast<uint64_t>(i);
    request.drafting = {.max_drafts = 5, .adaptive = i % 2 == 1};
    const Generation out = run(model, request);
    ++got[out.ids];
    accepted += out.drafts.accepted;
    if (i % 100 != 0) continue;
    request.drafting.max_drafts = 0;
    ASSERT_EQ(run(model, request).ids, out.ids) << i;  // not only as often: the same
  }
  // Answers too rare for the test's approximation are one cell.
  double chi_square = 0;
  double rare_expected = 0;
  int cells = 0, counted = 0, rare = 0;
  const auto add_cell = [&](int count, double expected) {
    chi_square += std::pow(count - expected, 2) / expected;
    ++cells;
  };
  for (const auto& [answer, probability] : want) {
    const int count = got[answer];
    counted += count;
    if (probability * samples >= 5) {
      add_cell(count, probability * samples);
    } else {
      rare += count;
      rare_expected += probability * samples;
    }
  }
  if (rare_expected > 0) add_cell(rare, rare_expected);
  EXPECT_EQ(counted, samples);
  EXPECT_GT(cells, 20);
  EXPECT_LT(chi_square, chi_square_limit(cells - 1));
  EXPECT_GT(accepted, samples / 10);
  RecordProperty("chi_square", std::to_string(chi_square));
  RecordProperty("cells", cells);
  RecordProperty("accepted", static_cast<int>(accepted));
}

}  // namespace
}  // namespace fathom
