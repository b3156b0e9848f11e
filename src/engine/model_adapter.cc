#include "engine/model_adapter.h"

#include <utility>

namespace fathom {

class ModelAdapter::AdaptedSequence : public LanguageSequence {
 public:
  AdaptedSequence(ModelAdapter& owner, Sequence sequence) : owner_(owner), sequence_(std::move(sequence)) {}

  Result<std::span<const float>> extend(std::span<const int32_t> ids, Want want) override {
    const SequenceRows rows{&sequence_, ids, want == Want::last_logits ? 1 : 0};
    FATHOM_ASSIGN(owner_.logits_, owner_.model_.forward(owner_.workspace_, std::span(&rows, 1)));
    if (want == Want::nothing) return std::span<const float>{};
    return owner_.logits_.row(0);
  }

 private:
  ModelAdapter& owner_;
  Sequence sequence_;
};

Result<std::unique_ptr<ModelAdapter>> ModelAdapter::create(const Model& model, int64_t max_rows) {
  FATHOM_ASSIGN(Workspace workspace, model.new_workspace(max_rows));
  return std::unique_ptr<ModelAdapter>(new ModelAdapter(model, std::move(workspace)));
}

Result<std::unique_ptr<LanguageSequence>> ModelAdapter::new_sequence() {
  FATHOM_ASSIGN(Sequence sequence, model_.new_sequence());
  return std::make_unique<AdaptedSequence>(*this, std::move(sequence));
}

}  // namespace fathom
