// A model directory opened for computing: backend, model and the engine's view of it.
#pragma once

#include <memory>

#include "base/result.h"
#include "cli/command.h"
#include "cli/options.h"
#include "engine/model_adapter.h"
#include "model/model.h"
#include "ops/ops.h"

namespace fathom {

/// Members are destroyed in reverse order: each needs the ones above it.
struct LoadedModel {
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Model> model;
  std::unique_ptr<ModelAdapter> language;
};

std::unique_ptr<Ops> make_ops(const BackendFlags& flags);

/// Rows of a prompt that are computed at once.
inline constexpr int64_t prefill_rows = 128;

/// Says so where --context asks for more than the model has.
void remark_on_context(const Surroundings& surroundings, int64_t context, const ModelConfig& config);

/// With `drafting`, sequences keep what drafts need, where the checkpoint has usable draft stages. Shows on
/// standard error how far it has come, and can be interrupted.
Result<LoadedModel> load_model(const ModelFlags& flags, bool drafting, const Surroundings& surroundings);

}  // namespace fathom
