// Rotary embedding, index queries, and the records that are packed after a rotation (spec 1).
#include "backend/cpu/context.h"
#include "backend/fast/operations.h"
#include "backend/fast/rotation.h"
#include "tensor/cache_layout.h"

namespace fathom::fast {

using cpu::elements;

namespace {

template <class Body>
void rotate_heads(const Context& context, const TensorRef& x, const TensorView& positions,
                  const TensorView& freqs, const Body& after) {
  const int64_t heads = x.shape[1];
  const int64_t dim = x.shape[2];
  FATHOM_CHECK_LE(2 * freqs.shape[0], dim);
  bf16* values = elements<bf16>(x);
  const int32_t* position = elements<int32_t>(positions);
  context.pool.parallel_for_workers(x.shape[0], near_rows_per_item(heads * 2 * freqs.shape[0]),
                                    [&](int64_t begin, int64_t end, int worker) {
                                      RowRotation rotation(context, freqs,
                                                           context.worker[static_cast<size_t>(worker)]);
                                      for (int64_t r = begin; r < end; ++r) {
                                        rotation.set(position[r]);
                                        rotation.apply(values + r * heads * dim, heads, dim);
                                        after(values + r * heads * dim, heads * dim);
                                      }
                                    });
}

// pack(rotated row, record) for rows [0, count): `position`, `values` and `record` are functions of the row.
template <class Position, class Values, class Record>
void pack_rows(const Context& context, const TensorView& freqs, int64_t dim, int64_t count,
               void (*pack)(const bf16*, int64_t, uint8_t*), const Position& position, const Values& values,
               const Record& record) {
  FATHOM_CHECK_LE(2 * freqs.shape[0], dim);
  FATHOM_CHECK_EQ(dim % 32, 0);
  context.pool.parallel_for_workers(count, near_rows_per_item(8 * dim),
                                    [&](int64_t begin, int64_t end, int worker) {
                                      Scratch& scratch = context.worker[static_cast<size_t>(worker)];
                                      RowRotation rotation(context, freqs, scratch);
                                      auto* row = scratch.take<bf16>(Scratch::row, dim);
                                      for (int64_t r = begin; r < end; ++r) {
                                        std::copy_n(values(r), dim, row);
                                        rotation.set(position(r));
                                        rotation.apply(row, 1, dim);
                                        pack(row, dim, reinterpret_cast<uint8_t*>(record(r)));
                                      }
                                    });
}

}  // namespace

void rope(const Context& context, const RopeParams& p) {
  rotate_heads(context, p.x, p.positions, p.freqs, [](bf16*, int64_t) {});
}

void index_query(const Context& context, const IndexQueryParams& p) {
  FATHOM_CHECK_EQ(p.x.shape[2] % index_fp4_block, 0);
  rotate_heads(context, p.x, p.positions, p.freqs, context.rows.index_fp4_grid);
}

void pack_window(const Context& context, const PackWindowParams& p) {
  const int64_t dim = p.kv.shape[1];
  const int64_t bytes = window_record(dim).bytes();
  FATHOM_CHECK_EQ(p.records.shape[1], bytes);
  const bf16* kv = elements<bf16>(p.kv);
  const int32_t* positions = elements<int32_t>(p.positions);
  pack_rows(
      context, p.freqs, dim, p.kv.shape[0], context.rows.pack_window, [&](int64_t r) { return positions[r]; },
      [&](int64_t r) { return kv + r * dim; }, [&](int64_t r) { return p.records.data + r * bytes; });
}

void store_records(const Context& context, const StoreRecordsParams& p) {
  const int64_t dim = p.values.shape[1];
  const bool index = p.kind == StoreRecordsParams::Kind::index_key;
  const int64_t bytes = (index ? index_record(dim) : compressed_record(dim)).bytes();
  const bf16* values = elements<bf16>(p.values);
  for (size_t s = 0; s < p.groups.size(); ++s) {
    const GroupSpan& span = p.groups[s];
    pack_rows(
        context, p.freqs, dim, span.num_groups,
        index ? context.rows.pack_index : context.rows.pack_compressed,
        [&](int64_t g) { return (span.first_group + g) * p.ratio; },
        [&](int64_t g) { return values + (span.first_output + g) * dim; },
        [&](int64_t g) { return p.records[s].at(span.first_group + g, bytes); });
  }
}

}  // namespace fathom::fast
