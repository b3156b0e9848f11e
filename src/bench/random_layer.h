// All weights of one layer of a model, random, in the formats in which they are published.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "bench/random_experts.h"
#include "bench/weight_store.h"
#include "model/config.h"
#include "model/weights.h"

namespace fathom::bench {

/// Layer `index`, which has no engram, with the experts of `experts`; `copy` chooses its shared one. Memory
/// is the store's. Errors: out_of_memory.
Result<LayerWeights> random_layer(const ModelConfig& config, int64_t index, const RandomExperts& experts,
                                  size_t copy, WeightStore& store);

/// Bytes that one row of the layer has to read, keys in the caches left out; of routed experts as many as
/// `experts_taken`.
double layer_weight_bytes(const ModelConfig& config, const LayerWeights& weights, int64_t experts_taken);

}  // namespace fathom::bench
