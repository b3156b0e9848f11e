// One of the model's operations, ready to be run again and again at a model's shapes with random data.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "ops/ops.h"

namespace fathom::bench {

/// What an operation cannot do without.
struct Work {
  double bytes = 0;  // to be read from memory: every weight, record or key once; or, `cached`, activations
  double flop = 0;   // of its products
  bool cached = false;
};

/// Owns its weights and activations. Runs rotate over copies of what comes from memory, so that no run finds
/// in a cache what the model would not.
class Operation {
 public:
  virtual ~Operation() = default;
  /// On average over the runs.
  virtual Work work(int64_t rows) = 0;
  virtual Status run(int64_t rows) = 0;
};

/// What operations are made from. All of it outlives them.
struct OperationSetup {
  const ModelConfig& config;
  Ops& ops;
  int threads = 1;                       // to make random data with
  int64_t max_rows = 1;                  // of any run
  int64_t num_experts = 0;               // routed ones in memory, at least n_activated_experts
  int64_t rotation_bytes = 0;            // copies together take so much
  std::function<bool()> cancelled = {};  // asked while random data is made; may be empty
};

using OperationPtr = Result<std::unique_ptr<Operation>>;

struct OperationSpec {
  std::string name;      // "wq_a", as the checkpoint or ops/ops.h has it
  std::string shape;     // "fp8 [1280, 5120]"
  int64_t max_rows = 0;  // beyond it the operation means nothing; 0: any number
  std::function<OperationPtr(const OperationSetup&)> make;  // errors: out_of_memory, cancelled
};

// Each family adds its own; the order is that of a table.
void add_linear_operations(const ModelConfig& config, std::vector<OperationSpec>& out);
void add_stream_operations(const ModelConfig& config, std::vector<OperationSpec>& out);
void add_attention_operations(const ModelConfig& config, std::vector<OperationSpec>& out);
/// oneDNN's products of the same shapes, for comparison; none unless it was built in (FATHOM_BENCH_ONEDNN).
void add_onednn_operations(const ModelConfig& config, std::vector<OperationSpec>& out);
void add_expert_operations(const ModelConfig& config, std::vector<OperationSpec>& out);
void add_layer_operations(const ModelConfig& config, std::vector<OperationSpec>& out);

/// All of them.
std::vector<OperationSpec> operation_specs(const ModelConfig& config);

}  // namespace fathom::bench
