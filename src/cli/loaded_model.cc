#include "cli/loaded_model.h"

#include <fmt/format.h>

#include "backend/cpu/cpu_ops.h"
#include "backend/fast/fast_ops.h"
#include "cli/memory_report.h"
#include "cli/progress_display.h"
#include "cli/remark.h"
#include "cli/signals.h"

namespace fathom {
namespace {

Result<std::unique_ptr<Model>> load_within_budget(const ModelFlags& flags, bool drafting, Ops& ops,
                                                  const Surroundings& surroundings) {
  const MemoryBudget budget = memory_budget(flags.memory);
  if (!budget.warning.empty()) remark(surroundings, budget.warning);
  MemoryOptions options;
  options.budget = budget.bytes;
  options.max_rows = prefill_rows;
  options.threads = flags.threads;
  options.drafting = drafting;
  ProgressDisplay progress = progress_display(surroundings, false, {.what = "weights", .unit = "MiB"});
  options.hooks.progress = [&](int64_t done, int64_t total) {
    const auto mebibytes = [](int64_t bytes) { return (bytes + (1 << 20) - 1) >> 20; };
    progress.update(mebibytes(done), mebibytes(total));
  };
  options.hooks.cancelled = interrupted;
  auto model = Model::load(flags.directory, ops, options, flags.context);
  progress.clear();
  // The budget is the only argument that loading can find wrong.
  if (!model && model.error().code == ErrorCode::invalid_argument)
    return fail(ErrorCode::invalid_argument, "{} ({})", model.error().message, budget.origin);
  return model;
}

}  // namespace

std::unique_ptr<Ops> make_ops(const BackendFlags& flags) {
  return flags.exact ? make_exact_cpu_ops(flags.threads) : make_fast_cpu_ops(flags.threads, flags.isa);
}

void remark_on_context(const Surroundings& surroundings, int64_t context, const ModelConfig& config) {
  if (context > config.max_seq_len)
    remark(surroundings,
           fmt::format("--context {} is more than the model has: {} positions", context, config.max_seq_len));
}

Result<LoadedModel> load_model(const ModelFlags& flags, bool drafting, const Surroundings& surroundings) {
  LoadedModel loaded;
  loaded.ops = make_ops(flags);
  if (flags.mapped) {
    FATHOM_ASSIGN(loaded.model, Model::load(flags.directory, *loaded.ops, {}, flags.context));
  } else {
    FATHOM_ASSIGN(loaded.model, load_within_budget(flags, drafting, *loaded.ops, surroundings));
  }
  remark_on_context(surroundings, flags.context, loaded.model->config());
  FATHOM_ASSIGN(loaded.language, ModelAdapter::create(*loaded.model, prefill_rows, drafting));
  return loaded;
}

}  // namespace fathom
