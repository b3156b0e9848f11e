// What a sequence keeps: window records, pooled groups, compressed KV and index keys (spec 1, 7).
#include <cstring>
#include <vector>

#include "backend/cpu/kernels.h"
#include "tensor/cache_layout.h"

namespace fathom::cpu {

void pack_window(const Context& context, const PackWindowParams& p) {
  const int64_t dim = p.kv.shape[1];
  const int64_t record = window_record(dim).bytes();
  FATHOM_CHECK_EQ(p.records.shape[1], record);
  const bf16* kv = elements<bf16>(p.kv);
  const int32_t* positions = elements<int32_t>(p.positions);
  context.pool.parallel_for(p.kv.shape[0], 8, [&](int64_t begin, int64_t end) {
    std::vector<float> x(static_cast<size_t>(dim));
    for (int64_t r = begin; r < end; ++r) {
      to_floats(kv + r * dim, dim, x.data());
      Rotation(positions[r], p.freqs, false).apply(x.data(), dim);
      fathom::pack_window(x.data(), dim, p.records.data + r * record);
    }
  });
}

void store_window(const Context&, const StoreWindowParams& p) {
  const int64_t record = p.records.shape[1];
  for (size_t s = 0; s < p.spans.size(); ++s) {
    const RowSpan& span = p.spans[s];
    const RingView& ring = p.rings[s];
    for (int64_t i = std::max<int64_t>(0, span.num_rows - ring.slots); i < span.num_rows; ++i) {
      const int64_t slot = (span.first_position + i) % ring.slots;
      std::memcpy(ring.data + slot * record, p.records.data + (span.first_row + i) * record,
                  static_cast<size_t>(record));
    }
  }
}

void store_records(const Context& context, const StoreRecordsParams& p) {
  const int64_t dim = p.values.shape[1];
  const bool index = p.kind == StoreRecordsParams::Kind::index_key;
  const int64_t record = (index ? index_record(dim) : compressed_record(dim)).bytes();
  const bf16* values = elements<bf16>(p.values);
  for (size_t s = 0; s < p.groups.size(); ++s) {
    const GroupSpan& span = p.groups[s];
    context.pool.parallel_for(span.num_groups, 8, [&](int64_t begin, int64_t end) {
      std::vector<float> x(static_cast<size_t>(dim));
      for (int64_t g = begin; g < end; ++g) {
        const int64_t group = span.first_group + g;
        to_floats(values + (span.first_output + g) * dim, dim, x.data());
        Rotation(group * p.ratio, p.freqs, false).apply(x.data(), dim);
        std::byte* at = p.records[s].at(group, record);
        if (index)
          pack_index(x.data(), dim, at);
        else
          pack_compressed(x.data(), dim, at);
      }
    });
  }
}

void pool_groups(const Context& context, const PoolGroupsParams& p) {
  const int64_t dim = p.kv.shape[1];
  const float* kv = elements<float>(p.kv);
  const float* score = elements<float>(p.score);
  bf16* out = elements<bf16>(p.out);
  constexpr int64_t max_ratio = 1024;  // what a configuration may say
  FATHOM_CHECK_LE(p.ratio, max_ratio);
  for (size_t s = 0; s < p.spans.size(); ++s) {
    const RowSpan& span = p.spans[s];
    const RingView& open = p.open[s];
    auto* ring = reinterpret_cast<float*>(open.data);
    context.pool.parallel_for(p.groups[s].num_groups, 4, [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) {
        const int64_t first = (p.groups[s].first_group + g) * p.ratio;
        const float* kv_rows[max_ratio];
        const float* score_rows[max_ratio];
        for (int64_t i = 0; i < p.ratio; ++i) {
          const int64_t position = first + i;
          if (position >= span.first_position) {
            const int64_t row = span.first_row + position - span.first_position;
            kv_rows[i] = kv + row * dim;
            score_rows[i] = score + row * dim;
          } else {
            kv_rows[i] = ring + position % open.slots * 2 * dim;
            score_rows[i] = kv_rows[i] + dim;
          }
        }
        bf16* latent = out + (p.groups[s].first_output + g) * dim;
        for (int64_t d = 0; d < dim; ++d) {
          double largest = -INFINITY;
          for (int64_t i = 0; i < p.ratio; ++i)
            largest = std::max(largest, static_cast<double>(score_rows[i][d]));
          double weights[max_ratio];
          double total = 0;
          for (int64_t i = 0; i < p.ratio; ++i)
            total += weights[i] = std::exp(static_cast<double>(score_rows[i][d]) - largest);
          double sum = 0;
          for (int64_t i = 0; i < p.ratio; ++i)
            sum += static_cast<double>(kv_rows[i][d]) * (weights[i] / total);
          latent[d] = to_bf16(sum);
        }
      }
    });
    for (int64_t i = std::max<int64_t>(0, span.num_rows - open.slots); i < span.num_rows; ++i) {
      float* slot = ring + (span.first_position + i) % open.slots * 2 * dim;
      std::memcpy(slot, kv + (span.first_row + i) * dim, static_cast<size_t>(dim) * sizeof(float));
      std::memcpy(slot + dim, score + (span.first_row + i) * dim, static_cast<size_t>(dim) * sizeof(float));
    }
  }
}

}  // namespace fathom::cpu
