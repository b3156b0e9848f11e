#include "cli/loaded_model.h"

#include "backend/cpu/cpu_ops.h"
#include "backend/fast/fast_ops.h"

namespace fathom {

Result<LoadedModel> load_model(const ModelFlags& flags, bool drafting) {
  LoadedModel loaded;
  loaded.ops = flags.exact ? make_exact_cpu_ops(flags.threads) : make_fast_cpu_ops(flags.threads, flags.isa);
  FATHOM_ASSIGN(loaded.model, Model::load(flags.directory, *loaded.ops));
  FATHOM_ASSIGN(loaded.language, ModelAdapter::create(*loaded.model, prefill_rows, drafting));
  return loaded;
}

}  // namespace fathom
