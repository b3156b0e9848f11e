#include "bench/operation.h"

namespace fathom::bench {

std::vector<OperationSpec> operation_specs(const ModelConfig& config) {
  std::vector<OperationSpec> out;
  add_linear_operations(config, out);
  add_onednn_operations(config, out);
  add_expert_operations(config, out);
  add_attention_operations(config, out);
  add_stream_operations(config, out);
  add_layer_operations(config, out);
  return out;
}

}  // namespace fathom::bench
