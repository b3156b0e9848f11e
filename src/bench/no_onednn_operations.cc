// Stands in for onednn_operations.cc where the comparison is not wanted.
#include "bench/operation.h"

namespace fathom::bench {

void add_onednn_operations(const ModelConfig&, std::vector<OperationSpec>&) {}

}  // namespace fathom::bench
