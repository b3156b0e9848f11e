#include "cli/loaded_model.h"

#include "backend/cpu/cpu_ops.h"
#include "backend/fast/fast_ops.h"

namespace fathom {

std::unique_ptr<Ops> make_ops(const BackendFlags& flags) {
  return flags.exact ? make_exact_cpu_ops(flags.threads) : make_fast_cpu_ops(flags.threads, flags.isa);
}

Result<LoadedModel> load_model(const ModelFlags& flags, bool drafting) {
  LoadedModel loaded;
  loaded.ops = make_ops(flags);
  FATHOM_ASSIGN(loaded.model, Model::load(flags.directory, *loaded.ops));
  FATHOM_ASSIGN(loaded.language, ModelAdapter::create(*loaded.model, prefill_rows, drafting));
  return loaded;
}

}  // namespace fathom
