#include "backend/fast/linear_kernels.h"

#include "base/check.h"

namespace fathom::fast {

const LinearKernels& linear_kernels(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::amx:
      return amx::linear;
    case Isa::avx512:
      return avx512::linear;
    case Isa::avx2:
      return avx2::linear;
#endif
    default:
      return portable::linear;
  }
}

bool has_kernel(const Weight& w) {
  const auto blocks = [&](BlockShape b) { return w.block.rows == b.rows && w.block.cols == b.cols; };
  switch (w.data.dtype) {
    case DType::bf16:
      return !w.quantized();
    case DType::e4m3:
      return blocks(fp8_weight_block) && w.in() % fp8_weight_block.cols == 0;
    case DType::e2m1x2:
      return blocks(fp4_weight_block) && w.in() % fp4_weight_block.cols == 0;
    default:
      return false;
  }
}

StoredMatrix stored_matrix(const Weight& w) {
  FATHOM_CHECK(has_kernel(w));
  StoredMatrix m;
  m.in = w.in();
  m.codes = reinterpret_cast<const uint8_t*>(w.data.data);
  m.code_stride = w.data.shape[1] * dtype_bytes(w.data.dtype);
  if (!w.quantized()) return m;
  m.format = w.data.dtype == DType::e4m3 ? WeightFormat::fp8 : WeightFormat::fp4;
  m.scales = reinterpret_cast<const uint8_t*>(w.scale.data);
  m.scale_stride = w.scale.shape[1];
  m.rows_per_scale = w.block.rows;
  return m;
}

}  // namespace fathom::fast
