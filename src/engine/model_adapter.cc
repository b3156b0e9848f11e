#include "engine/model_adapter.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace fathom {

class ModelAdapter::AdaptedSequence : public LanguageSequence {
 public:
  AdaptedSequence(ModelAdapter& owner, Sequence sequence) : owner_(owner), sequence_(std::move(sequence)) {}

  Result<std::span<const float>> extend(std::span<const int32_t> ids, int64_t num_logits,
                                        std::span<const ImagePlacement> images) override {
    const SequenceRows rows{&sequence_, ids, num_logits, images};
    FATHOM_ASSIGN(owner_.logits_, owner_.model_.forward(owner_.workspace_, std::span(&rows, 1)));
    return std::span<const float>(owner_.logits_.values);
  }

  void rewind(int64_t n) override { sequence_.rewind(n); }

  Result<std::vector<int32_t>> draft(int32_t token, int64_t max_drafts, const ChooseDraft& choose) override {
    const Model& model = owner_.model_;
    const DraftRequest request{&sequence_, token};
    FATHOM_ASSIGN(DraftBlock block, model.begin_draft(owner_.workspace_, std::span(&request, 1), max_drafts));
    std::vector<int32_t> drafts;
    for (int32_t previous = token; block.step < block.depth;) {
      FATHOM_ASSIGN(const DraftStep step, model.next_draft(block, std::span(&previous, 1)));
      FATHOM_ASSIGN(const std::optional<int32_t> id, choose(step.row(0), step.confidence.front()));
      if (!id) break;
      drafts.push_back(previous = *id);
    }
    return drafts;
  }

 private:
  ModelAdapter& owner_;
  Sequence sequence_;
};

Result<std::unique_ptr<ModelAdapter>> ModelAdapter::create(const Model& model, int64_t max_rows,
                                                           bool drafting) {
  FATHOM_ASSIGN(Workspace workspace, model.new_workspace(max_rows));
  return std::unique_ptr<ModelAdapter>(
      new ModelAdapter(model, std::move(workspace), drafting && model.can_draft()));
}

int64_t ModelAdapter::max_drafts() const {
  return drafting_ ? std::min(model_.config().dspark_block_size, Sequence::max_rewind) : 0;
}

Result<std::unique_ptr<LanguageSequence>> ModelAdapter::new_sequence() {
  FATHOM_ASSIGN(Sequence sequence, model_.new_sequence(drafting_));
  return std::make_unique<AdaptedSequence>(*this, std::move(sequence));
}

}  // namespace fathom
