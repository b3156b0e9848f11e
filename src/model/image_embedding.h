// An image as the text model sees it: the rows of its whole span (spec 5, In the sequence).
#pragma once

#include <cstdint>

#include "image/identity.h"
#include "ops/tensor_ref.h"

namespace fathom {

/// Immutable once made (by model/vision_tower.h). The backend that made it must outlive it.
struct ImageEmbedding {
  ImageIdentity identity;  // for whoever caches what was computed from it
  int64_t grid_rows = 0;   // cells, of which each is one IMAGE token
  int64_t grid_cols = 0;
  Buffer memory;
  /// bf16 [tokens, dim] in `memory`: START, for each row of cells its IMAGE tokens and a NEWLINE, END.
  TensorRef rows;

  int64_t tokens() const { return rows.rows(); }
};

}  // namespace fathom
