#include "model/sequence.h"

#include "tensor/cache_layout.h"

namespace fathom {
namespace {

// Slots beyond the window keep what a rewound position still needs.
int64_t window_slots(const ModelConfig& c) { return c.window_size + Sequence::max_rewind; }
int64_t open_slots(int64_t ratio) { return ratio - 1 + Sequence::max_rewind; }
int64_t blocks_for(int64_t records) {
  return (records + RecordStore::records_per_block - 1) / RecordStore::records_per_block;
}
int64_t open_bytes(const ModelConfig& c, int64_t ratio) {
  return ratio > 1 ? open_slots(ratio) * 2 * c.head_dim * dtype_bytes(DType::f32) : 0;
}
int64_t window_bytes(const ModelConfig& c, bool drafting) {
  return (c.n_layers + (drafting ? c.n_mtp_layers : 0)) * window_slots(c) * window_record(c.head_dim).bytes();
}

}  // namespace

Status RecordStore::reserve(Ops& ops, int64_t count) {
  while (static_cast<int64_t>(pointers_.size()) < blocks_for(count)) {
    FATHOM_ASSIGN(Buffer block, ops.allocate(records_per_block * record_bytes_));
    pointers_.push_back(block.data());
    blocks_.push_back(std::move(block));
  }
  return {};
}

Result<Sequence> Sequence::create(const ModelConfig& config, Ops& ops, bool drafting) {
  Sequence sequence(config, ops, drafting);
  FATHOM_ASSIGN(sequence.windows_, ops.allocate(window_bytes(config, drafting)));
  for (int64_t layer : config.kv_source_layers) {
    const int64_t ratio = config.ratio(layer);
    FATHOM_ASSIGN(Buffer open, ops.allocate(open_bytes(config, ratio)));
    sequence.sources_.push_back(Source{ratio, RecordStore(compressed_record(config.head_dim).bytes()),
                                       RecordStore(index_record(config.index_head_dim).bytes()),
                                       std::move(open), open_slots(ratio)});
  }
  return sequence;
}

void Sequence::rewind(int64_t n) {
  FATHOM_CHECK_LE(0, n);
  FATHOM_CHECK_LE(n, max_rewind);
  FATHOM_CHECK_LE(n, length_);
  length_ -= n;
  if (static_cast<int64_t>(engram_ids_.size()) > length_) engram_ids_.resize(static_cast<size_t>(length_));
}

Status Sequence::reserve(int64_t num_rows) {
  if (poisoned_)
    return fail(ErrorCode::invalid_argument, "this sequence failed in an earlier step and cannot go on");
  const int64_t end = length_ + num_rows;
  if (end > config_->max_seq_len)
    return fail(ErrorCode::invalid_argument, "{} positions, expected at most the model's context of {}", end,
                config_->max_seq_len);
  for (Source& source : sources_) {
    FATHOM_TRY(source.compressed.reserve(*ops_, end / source.ratio));
    FATHOM_TRY(source.index_keys.reserve(*ops_, end / source.ratio));
  }
  return {};
}

RingView Sequence::window(int64_t layer) const {
  FATHOM_CHECK(layer < config_->n_layers || drafting_);
  const int64_t slots = window_slots(*config_);
  return {windows_.data() + layer * slots * window_record(config_->head_dim).bytes(), slots};
}

RingView Sequence::open_rows(int64_t source) const {
  const Source& s = sources_[static_cast<size_t>(source)];
  return {s.open.data(), s.open_slots};
}

int64_t Sequence::bytes() const {
  int64_t total = windows_.bytes();
  for (const Source& s : sources_) total += s.compressed.bytes() + s.index_keys.bytes() + s.open.bytes();
  return total;
}

int64_t Sequence::bytes_for(const ModelConfig& config, int64_t positions, bool drafting) {
  int64_t total = window_bytes(config, drafting);
  const int64_t record =
      compressed_record(config.head_dim).bytes() + index_record(config.index_head_dim).bytes();
  for (int64_t layer : config.kv_source_layers) {
    const int64_t ratio = config.ratio(layer);
    total +=
        blocks_for(positions / ratio) * RecordStore::records_per_block * record + open_bytes(config, ratio);
  }
  return total;
}

}  // namespace fathom
