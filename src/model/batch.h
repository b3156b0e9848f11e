// The rows of one pass: which sequences, which positions, and views of the sequences' caches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "model/config.h"
#include "model/engram_rows.h"
#include "model/image_placement.h"
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
  std::vector<ImageRows> images;                 // what the stream begins with at image positions
  TensorView image_rows = {};                    // u8 [rows]: 1 at image positions; empty without any
  EngramRows* engram_rows = nullptr;  // where engram_ids have been asked for; null: rows are in the tables
  bool block = false;      // rows are draft blocks, which see all of their own span and are not kept
  Trace* trace = nullptr;  // with one sequence only

  std::vector<RingView> windows(int64_t layer) const {
    return views<RingView>([=](const Sequence& s) { return s.window(layer); });
  }
  std::vector<RecordsView> compressed(int64_t source) const {
    return views<RecordsView>([=](const Sequence& s) { return s.compressed(source); });
  }
  std::vector<RecordsView> index_keys(int64_t source) const {
    return views<RecordsView>([=](const Sequence& s) { return s.index_keys(source); });
  }
  std::vector<RingView> open_rows(int64_t source) const {
    return views<RingView>([=](const Sequence& s) { return s.open_rows(source); });
  }

  /// Whether any sequence keeps what drafting needs.
  bool drafting() const {
    return std::any_of(sequences.begin(), sequences.end(), [](const Sequence* s) { return s->drafting(); });
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

 private:
  template <class View, class ViewOf>
  std::vector<View> views(const ViewOf& view_of) const {
    std::vector<View> out;
    for (const Sequence* s : sequences) out.push_back(view_of(*s));
    return out;
  }
};

}  // namespace fathom
