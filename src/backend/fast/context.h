// What every operation of the fast path works with.
#pragma once

#include <span>

#include "backend/fast/isa.h"
#include "backend/fast/linear_kernels.h"
#include "backend/fast/row_kernels.h"
#include "backend/fast/scratch.h"
#include "base/threads.h"

namespace fathom::fast {

struct Context {
  ThreadPool& pool;
  Isa isa;
  RowKernels rows;
  LinearKernels linear;
  Scratch& scratch;           // of the operation; not for use inside a parallel body
  std::span<Scratch> worker;  // one for each of the pool's workers
};

/// How many rows of `elements` weights each are worth another worker: waking it costs microseconds.
inline int64_t rows_per_item(int64_t elements, int64_t worth = 1 << 15) {
  return elements >= worth ? 1 : worth / (elements > 0 ? elements : 1);
}
/// The same for rows of activations, which are few and near: a step of decoding, drafts included, stays on
/// the thread it is on.
inline int64_t near_rows_per_item(int64_t elements) { return rows_per_item(elements, 1 << 17); }

}  // namespace fathom::fast
