// Attention over window keys and picked compressed keys in one softmax (spec 1, Attention).
//
// With many rows each worker takes whole rows, a tile of keys at a time. With few, workers first share out
// the unpacking of a row's keys, then its heads. Either way a row goes through the same tiles in the same
// order.
#include "backend/fast/attention_kernels.h"
#include "backend/fast/operations.h"
#include "backend/fast/rotation.h"
#include "backend/fast/weights.h"
#include "tensor/cache_layout.h"

namespace fathom::fast {
namespace {

using cpu::elements;

constexpr int64_t groups_per_tile = attention_tile / attention_group;

/// One row's keys in the order of its list.
struct RowKeys {
  const AttentionKey* keys;  // padded to whole tiles
  int64_t count;
  int64_t tiles() const { return (count + attention_tile - 1) / attention_tile; }
  /// Keys of tile t.
  int64_t in_tile(int64_t t) const { return std::min(attention_tile, count - t * attention_tile); }
  /// Groups of tile t that the kernels look at.
  int64_t groups_in_tile(int64_t t) const { return (in_tile(t) + 31) / 32 * 2; }
};

class SparseAttention {
 public:
  SparseAttention(const Context& context, const SparseAttentionParams& p)
      : context_(context),
        p_(p),
        kernels_(attention_kernels(context.isa)),
        heads_(p.q.shape[1]),
        dim_(p.q.shape[2]),
        blocks_((heads_ + kernels_.head_block - 1) / kernels_.head_block),
        sinks_(floats_of(context, p.sink, heads_, Scratch::weights)) {
    FATHOM_CHECK_EQ(dim_ % 32, 0);
    FATHOM_CHECK_LE(2 * p.freqs.shape[0], dim_);
    int64_t longest = 0;
    for (const RowSpan& s : p.spans) longest = std::max(longest, p.block ? s.num_rows : 0);
    const int64_t picked = p.compressed.empty() ? 0 : p.picked.shape[1];
    max_keys_ = p.window_size + longest + picked;
  }

  void by_rows() const {
    const int64_t rows = p_.q.shape[0];
    const int32_t* span_of = spans_of_rows();
    context_.pool.parallel_for_workers(rows, 1, [&](int64_t begin, int64_t end, int worker) {
      Scratch& scratch = context_.worker[static_cast<size_t>(worker)];
      for (int64_t r = begin; r < end; ++r) {
        const RowKeys keys =
            list_keys(span_of[r], r, scratch.take<AttentionKey>(Scratch::input, padded_keys()));
        auto* tile = scratch.take<uint8_t>(Scratch::keys, kernels_.tile_bytes(dim_));
        auto* queries = scratch.take<uint8_t>(Scratch::queries, blocks_ * kernels_.query_bytes(dim_));
        auto* states = scratch.take<uint8_t>(Scratch::partial, blocks_ * kernels_.state_bytes(dim_));
        for (int64_t b = 0; b < blocks_; ++b) start(r, b, query(queries, b), state(states, b));
        for (int64_t t = 0; t < keys.tiles(); ++t) {
          for (int64_t g = 0; g < keys.groups_in_tile(t); ++g) unpack(keys, t, g, tile);
          for (int64_t b = 0; b < blocks_; ++b) {
            const int64_t next = (t + 1) * attention_tile;
            read_ahead(keys, next + attention_tile * b / blocks_, next + attention_tile * (b + 1) / blocks_);
            kernels_.attend(query(queries, b), tile, keys.in_tile(t), dim_, state(states, b));
          }
        }
        const RowRotation rotation = inverse_rotation(r, scratch);
        for (int64_t b = 0; b < blocks_; ++b) finish(r, b, state(states, b), rotation);
      }
    });
  }

  void by_heads() const {
    const int32_t* span_of = spans_of_rows();
    for (int64_t r = 0; r < p_.q.shape[0]; ++r) row_by_heads(span_of[r], r);
  }

 private:
  int64_t padded_keys() const { return (max_keys_ + attention_tile - 1) / attention_tile * attention_tile; }

  int64_t block_heads(int64_t b) const {
    return std::min(kernels_.head_block, heads_ - b * kernels_.head_block);
  }
  uint8_t* query(uint8_t* queries, int64_t b) const { return queries + b * kernels_.query_bytes(dim_); }
  uint8_t* state(uint8_t* states, int64_t b) const { return states + b * kernels_.state_bytes(dim_); }

  const int32_t* spans_of_rows() const {
    auto* out = context_.scratch.take<int32_t>(Scratch::row, p_.q.shape[0]);
    for (size_t s = 0; s < p_.spans.size(); ++s)
      std::fill_n(out + p_.spans[s].first_row, p_.spans[s].num_rows, static_cast<int32_t>(s));
    return out;
  }

  // Window positions ascending (in a block those before it, then its own), then picked groups ascending.
  RowKeys list_keys(int32_t s, int64_t r, AttentionKey* out) const {
    const RowSpan& span = p_.spans[static_cast<size_t>(s)];
    const int64_t window_bytes = window_record(dim_).bytes();
    const int64_t position = span.first_position + r - span.first_row;
    const int64_t end = p_.block ? span.end_position() : position + 1;
    const int64_t first =
        std::max<int64_t>(0, (p_.block ? span.first_position : position + 1) - p_.window_size);
    int64_t count = 0;
    const auto add = [&](const std::byte* record, bool compressed) {
      out[count++] = {reinterpret_cast<const uint8_t*>(record), compressed};
    };
    for (int64_t t = first; t < end; ++t) {
      const RingView& ring = p_.rings[static_cast<size_t>(s)];
      add(t >= span.first_position
              ? p_.window_records.data + (span.first_row + t - span.first_position) * window_bytes
              : ring.data + t % ring.slots * window_bytes,
          false);
    }
    if (!p_.compressed.empty()) {
      const int64_t num_picked = elements<int32_t>(p_.num_picked)[r];
      const int32_t* picked = elements<int32_t>(p_.picked) + r * p_.picked.shape[1];
      const int64_t bytes = compressed_record(dim_).bytes();
      for (int64_t k = 0; k < num_picked; ++k)
        add(p_.compressed[static_cast<size_t>(s)].at(picked[k], bytes), true);
    }
    const int64_t real = count;
    while (count % attention_tile != 0) add(nullptr, false);
    return {out, real};
  }

  void unpack(const RowKeys& keys, int64_t t, int64_t group, uint8_t* tile) const {
    kernels_.unpack(keys.keys + t * attention_tile + group * attention_group, group, dim_, tile);
  }

  // Picked records lie far apart: the processor does not guess them.
  void read_ahead(const RowKeys& keys, int64_t begin, int64_t end) const {
    constexpr int64_t line = 64;
    const int64_t bytes = compressed_record(dim_).bytes();
    for (int64_t k = begin; k < std::min(end, keys.count); ++k)
      if (keys.keys[k].compressed)
        for (int64_t i = 0; i < bytes; i += line) __builtin_prefetch(keys.keys[k].record + i);
  }

  void start(int64_t r, int64_t b, uint8_t* to_query, uint8_t* to_state) const {
    const int64_t first = b * kernels_.head_block;
    kernels_.start(elements<bf16>(p_.q) + (r * heads_ + first) * dim_, sinks_ + first, block_heads(b), dim_,
                   to_query, to_state);
  }

  void finish(int64_t r, int64_t b, const uint8_t* from, const RowRotation& inverse) const {
    bf16* out = elements<bf16>(p_.out) + (r * heads_ + b * kernels_.head_block) * dim_;
    kernels_.finish(from, block_heads(b), dim_, out);
    inverse.apply(out, block_heads(b), dim_);
  }

  RowRotation inverse_rotation(int64_t r, Scratch& scratch) const {
    RowRotation rotation(context_, p_.freqs, scratch);
    rotation.set(elements<int32_t>(p_.positions)[r], true);
    return rotation;
  }

  void row_by_heads(int32_t s, int64_t r) const {
    Scratch& scratch = context_.scratch;
    const RowKeys keys = list_keys(s, r, scratch.take<AttentionKey>(Scratch::input, padded_keys()));
    const int64_t tile_bytes = kernels_.tile_bytes(dim_);
    auto* tiles = scratch.take<uint8_t>(Scratch::keys, padded_keys() / attention_tile * tile_bytes);
    const RowRotation rotation = inverse_rotation(r, scratch);
    const int64_t last = keys.tiles() - 1;
    const int64_t groups = last * groups_per_tile + keys.groups_in_tile(last);
    context_.pool.parallel_for(groups, 4, [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) {
        read_ahead(keys, (g + 1) * attention_group, (g + 2) * attention_group);
        unpack(keys, g / groups_per_tile, g % groups_per_tile, tiles + g / groups_per_tile * tile_bytes);
      }
    });
    // Tile by tile: all of them together are more than a core's cache holds.
    const int64_t workers = context_.pool.num_threads();
    const int64_t grain = (blocks_ + workers - 1) / workers;
    context_.pool.parallel_for_workers(blocks_, grain, [&](int64_t begin, int64_t end, int worker) {
      Scratch& own = context_.worker[static_cast<size_t>(worker)];
      auto* queries = own.take<uint8_t>(Scratch::queries, grain * kernels_.query_bytes(dim_));
      auto* states = own.take<uint8_t>(Scratch::partial, grain * kernels_.state_bytes(dim_));
      for (int64_t b = begin; b < end; ++b) start(r, b, query(queries, b - begin), state(states, b - begin));
      for (int64_t t = 0; t < keys.tiles(); ++t)
        for (int64_t b = 0; b < end - begin; ++b)
          kernels_.attend(query(queries, b), tiles + t * tile_bytes, keys.in_tile(t), dim_, state(states, b));
      for (int64_t b = begin; b < end; ++b) finish(r, b, state(states, b - begin), rotation);
    });
  }

  const Context& context_;
  const SparseAttentionParams& p_;
  AttentionKernels kernels_;
  int64_t heads_, dim_, blocks_;
  const float* sinks_;
  int64_t max_keys_;
};

}  // namespace

void sparse_attention(const Context& context, const SparseAttentionParams& p) {
  const SparseAttention attention(context, p);
  if (context.pool.num_threads() == 1 || p.q.shape[0] >= 2 * context.pool.num_threads())
    attention.by_rows();
  else
    attention.by_heads();
}

}  // namespace fathom::fast
