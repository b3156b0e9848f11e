#include "bench/weight_store.h"

#include <algorithm>

#include "bench/random_fill.h"
#include "bench/spare_memory.h"

namespace fathom::bench {
namespace {

constexpr int64_t block_bytes = int64_t{32} << 20;
constexpr int64_t alignment = 64;

int64_t tiles(int64_t size, int64_t tile) { return (size + tile - 1) / tile; }

}  // namespace

Result<std::byte*> WeightStore::take(int64_t bytes, DType dtype) {
  const int64_t padded = tiles(bytes, alignment) * alignment;
  if (blocks_.empty() || used_ + padded > blocks_.back().bytes()) {
    FATHOM_ASSIGN(HugeBuffer block, take_spare_memory(std::max(padded, block_bytes)));
    blocks_.push_back(std::move(block));
    used_ = 0;
  }
  std::byte* data = blocks_.back().data() + used_;
  used_ += padded;
  fill_random(data, padded, dtype, ++seed_, threads_);
  return data;
}

Result<TensorView> WeightStore::tensor(DType dtype, Shape shape) {
  TensorView view{nullptr, dtype, shape, {}};
  FATHOM_ASSIGN(view.data, take(view.bytes(), dtype));
  return view;
}

Result<Weight> WeightStore::bf16(int64_t out, int64_t in) {
  Weight w;
  FATHOM_ASSIGN(w.data, tensor(DType::bf16, {out, in}));
  return w;
}

Result<Weight> WeightStore::fp8(int64_t out, int64_t in) {
  Weight w{{}, {}, fp8_weight_block};
  FATHOM_ASSIGN(w.data, tensor(DType::e4m3, {out, in}));
  FATHOM_ASSIGN(w.scale, tensor(DType::e8m0, {tiles(out, w.block.rows), tiles(in, w.block.cols)}));
  return w;
}

Result<Weight> WeightStore::fp4(int64_t out, int64_t in) {
  Weight w{{}, {}, fp4_weight_block};
  FATHOM_ASSIGN(w.data, tensor(DType::e2m1x2, {out, in / 2}));
  FATHOM_ASSIGN(w.scale, tensor(DType::e8m0, {out, tiles(in, w.block.cols)}));
  return w;
}

}  // namespace fathom::bench
