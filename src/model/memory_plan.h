// How a budget of memory is spent: what must be there, and how many experts fit into the rest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "base/result.h"
#include "model/config.h"

namespace fathom {

/// Bytes, unless they say otherwise.
struct MemoryNeeds {
  int64_t process = 0;      // used before any weight is read: tokenizer, tables of tensors, code's own data
  int64_t dense = 0;        // weights that every token needs, and every draft
  int64_t draft_dense = 0;  // those of them that only drafts need
  int64_t workspace = 0;    // activations, and what the operations work in
  int64_t sequence = 0;     // state of one sequence that is as long as may be
  int64_t slot = 0;         // one expert
  int64_t num_experts = 0;  // of all layers
  int64_t min_slots = 0;    // experts
  int64_t engram_row = 0;   // one row of a table, in the cache
  int64_t min_engram_rows = 0;     // rows: as many as one chunk may ask for
  int64_t engram_staging = 0;      // where rows are read to, at least
  int64_t max_engram_staging = 0;  // and at most
  int64_t load_staging = 0;        // where dense weights are read to; nothing but they is there then

  int64_t fixed() const {
    return process + dense + workspace + sequence + min_engram_rows * engram_row + engram_staging;
  }
  int64_t smallest_budget() const {
    return std::max(fixed() + min_slots * slot, process + dense + load_staging);
  }
  /// What to tell as the smallest budget that works, in whole MiB: a little more than smallest_budget(),
  /// since the process itself is not of quite the same size in the next run, nor under another command.
  int64_t told_budget() const;
  /// `process`, as told_budget() counts it.
  int64_t told_process() const;
};

struct MemoryPlan {
  MemoryNeeds needs;
  int64_t budget = 0;
  int64_t num_slots = 0;        // experts in memory
  int64_t num_engram_rows = 0;  // rows in memory
  int64_t engram_staging = 0;   // bytes where rows are read to

  /// The most memory that a run takes.
  int64_t bytes() const;
  /// The share of all experts that fits.
  double expert_share() const;
};

/// Spends `budget`: after what must be there, a little on engram rows (at most a 64th to read them, and a
/// 32nd and 256 MiB to keep them) and the rest on experts. Errors: invalid_argument, with the smallest budget
/// that works and what it consists of.
Result<MemoryPlan> plan_memory(const MemoryNeeds& needs, int64_t budget);

/// What operations and the pass take beside the workspace for chunks of `max_rows` rows on `threads` threads,
/// about: copies of activations as floats, one result for every chosen expert, logits; for a thread what it
/// unpacks weights and keys to, and its stack.
int64_t working_bytes(const ModelConfig& config, int64_t max_rows, int threads);

/// The least number of experts to hold: those of one token, and two on their way.
int64_t min_expert_slots(const ModelConfig& config);

/// Left to others when the budget is what the machine has free: a sixteenth, 256 MiB to 2 GiB; where little
/// is free, an eighth.
int64_t memory_headroom(int64_t available);

}  // namespace fathom
