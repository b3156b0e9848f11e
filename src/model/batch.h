// The rows of one pass: which sequences, which positions, and views of the sequences' caches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"
#include "model/sequence.h"
#include "model/trace.h"
#include "ops/params.h"

namespace fathom {

/// One chunk of rows, at most the workspace's. Rows of a sequence stand together, in order of position.
struct Batch {
  int64_t rows = 0;
  std::vector<Sequence*> sequences;              // each at most once
  std::vector<RowSpan> spans;                    // one per sequence
  std::vector<std::vector<int64_t>> engram_ids;  // for each engram layer, table rows [rows, columns]
  Trace* trace = nullptr;                        // with one sequence only

  std::vector<RingView> windows(int64_t layer) const {
    std::vector<RingView> out;
    for (const Sequence* s : sequences) out.push_back(s->window(layer));
    return out;
  }
  std::vector<RecordsView> compressed(int64_t source) const {
    std::vector<RecordsView> out;
    for (const Sequence* s : sequences) out.push_back(s->compressed(source));
    return out;
  }
  std::vector<RecordsView> index_keys(int64_t source) const {
    std::vector<RecordsView> out;
    for (const Sequence* s : sequences) out.push_back(s->index_keys(source));
    return out;
  }
  std::vector<RingView> open_rows(int64_t source) const {
    std::vector<RingView> out;
    for (const Sequence* s : sequences) out.push_back(s->open_rows(source));
    return out;
  }

  /// The groups of `ratio` positions whose last position is in this batch; outputs in order of sequence.
  std::vector<GroupSpan> closed_groups(int64_t ratio) const {
    std::vector<GroupSpan> out;
    int64_t outputs = 0;
    for (const RowSpan& span : spans) {
      const int64_t first = span.first_position / ratio;
      const int64_t count = span.end_position() / ratio - first;
      out.push_back({first, count, outputs});
      outputs += count;
    }
    return out;
  }
};

}  // namespace fathom
