#include "bench/record_blocks.h"

#include "bench/random_fill.h"
#include "bench/spare_memory.h"

namespace fathom::bench {
namespace {

RecordLayout layout_of(RecordKind kind, int64_t dim) {
  switch (kind) {
    case RecordKind::window:
      return window_record(dim);
    case RecordKind::compressed:
      return compressed_record(dim);
    case RecordKind::index:
      return index_record(dim);
  }
  return {};
}

}  // namespace

int64_t record_bytes(RecordKind kind, int64_t dim) { return layout_of(kind, dim).bytes(); }

void fill_records(std::byte* data, RecordKind kind, int64_t dim, int64_t count) {
  const RecordLayout layout = layout_of(kind, dim);
  // E4M3 codes must not be NaN; E2M1 codes may be anything.
  fill_random(data, count * layout.bytes(), kind == RecordKind::window ? DType::e4m3 : DType::u8, 7, 1);
  const bool e4m3_scales = kind == RecordKind::compressed;
  const unsigned keep = e4m3_scales ? 0x07 : 0x03;
  const unsigned set = e4m3_scales ? 0x20 : 0x78;
  for (int64_t i = 0; i < count; ++i) {
    std::byte* scales = data + i * layout.bytes() + layout.code_bytes;
    for (int64_t s = 0; s < layout.scale_bytes; ++s)
      scales[s] = static_cast<std::byte>((static_cast<unsigned>(scales[s]) & keep) | set);
  }
}

Result<RecordBlocks> RecordBlocks::create(RecordKind kind, int64_t dim, int64_t count) {
  RecordBlocks out;
  const int64_t bytes = layout_of(kind, dim).bytes();
  FATHOM_ASSIGN(out.memory_, take_spare_memory(bytes * count));
  fill_records(out.memory_.data(), kind, dim, count);
  for (int64_t first = 0; first < count; first += records_per_block)
    out.blocks_.push_back(out.memory_.data() + first * bytes);
  return out;
}

}  // namespace fathom::bench
