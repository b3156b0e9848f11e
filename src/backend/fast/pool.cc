// Pooling of groups of positions to latents (spec 1, Compressed KV).
#include <cstring>

#include "backend/cpu/context.h"
#include "backend/fast/operations.h"

namespace fathom::fast {

using cpu::elements;

namespace {

constexpr int64_t max_ratio = 1024;  // what a configuration may say

// One span's rows: those of the batch, and those before it in the ring.
struct GroupRows {
  const PoolGroupsParams& p;
  size_t span;
  int64_t dim;

  void find(int64_t first, const float** kv_rows, const float** score_rows) const {
    const RowSpan& rows = p.spans[span];
    const RingView& open = p.open[span];
    for (int64_t i = 0; i < p.ratio; ++i) {
      const int64_t position = first + i;
      if (position >= rows.first_position) {
        const int64_t row = rows.first_row + position - rows.first_position;
        kv_rows[i] = elements<float>(p.kv) + row * dim;
        score_rows[i] = elements<float>(p.score) + row * dim;
      } else {
        kv_rows[i] = reinterpret_cast<const float*>(open.data) + position % open.slots * 2 * dim;
        score_rows[i] = kv_rows[i] + dim;
      }
    }
  }

  void keep() const {
    const RowSpan& rows = p.spans[span];
    const RingView& open = p.open[span];
    const auto bytes = static_cast<size_t>(dim) * sizeof(float);
    for (int64_t i = std::max<int64_t>(0, rows.num_rows - open.slots); i < rows.num_rows; ++i) {
      auto* slot = reinterpret_cast<float*>(open.data) + (rows.first_position + i) % open.slots * 2 * dim;
      std::memcpy(slot, elements<float>(p.kv) + (rows.first_row + i) * dim, bytes);
      std::memcpy(slot + dim, elements<float>(p.score) + (rows.first_row + i) * dim, bytes);
    }
  }
};

}  // namespace

void pool_groups(const Context& context, const PoolGroupsParams& p) {
  const int64_t dim = p.kv.shape[1];
  FATHOM_CHECK_LE(p.ratio, max_ratio);
  bf16* out = elements<bf16>(p.out);
  for (size_t s = 0; s < p.spans.size(); ++s) {
    const GroupRows rows{p, s, dim};
    const GroupSpan& groups = p.groups[s];
    context.pool.parallel_for(
        groups.num_groups, near_rows_per_item(8 * p.ratio * dim), [&](int64_t begin, int64_t end) {
          const float* kv_rows[max_ratio];
          const float* score_rows[max_ratio];
          for (int64_t g = begin; g < end; ++g) {
            rows.find((groups.first_group + g) * p.ratio, kv_rows, score_rows);
            context.rows.pool_group(kv_rows, score_rows, p.ratio, dim, out + (groups.first_output + g) * dim);
          }
        });
    rows.keep();
  }
}

}  // namespace fathom::fast
