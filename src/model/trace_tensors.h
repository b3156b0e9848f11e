// Copies of backend tensors for a trace, with bf16 shown as f32 and packed records as their values.
#pragma once

#include <string>

#include "model/trace.h"

namespace fathom {

/// Records `tensor` (any activation dtype) as it stands in backend memory.
void trace_tensor(Trace& trace, Ops& ops, const std::string& name, const TensorView& tensor);

/// Records window records (u8 [rows, record bytes]) as f32 [rows, head_dim].
void trace_window(Trace& trace, Ops& ops, const std::string& name, const TensorView& records,
                  int64_t head_dim);

/// Records the first `count` compressed KV or index key records as f32 [count, dim], in place of earlier
/// ones.
void trace_records(Trace& trace, Ops& ops, const std::string& name, StoreRecordsParams::Kind kind,
                   const RecordsView& records, int64_t count, int64_t dim);

}  // namespace fathom
