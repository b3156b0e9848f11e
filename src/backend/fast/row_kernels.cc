#include "backend/fast/row_kernels.h"

namespace fathom::fast {

RowKernels row_kernels(Isa isa) {
  RowKernels kernels{};
  switch (isa) {
#if defined(__x86_64__)
    case Isa::amx:
    case Isa::avx512:
      avx512::add_norm_kernels(kernels);
      break;
    case Isa::avx2:
      avx2::add_norm_kernels(kernels);
      break;
#endif
    default:
      portable::add_norm_kernels(kernels);
      break;
  }
  return kernels;
}

}  // namespace fathom::fast
