#include "backend/fast/index_kernels.h"

namespace fathom::fast {

IndexKernels index_kernels(Isa isa) {
  IndexKernels kernels{};
  switch (isa) {
#if defined(__x86_64__)
    case Isa::amx:
    case Isa::avx512:
      avx512::add_index_kernels(kernels);
      avx512::add_choice_kernels(kernels);
      if (isa == Isa::amx) amx::add_index_kernels(kernels);
      break;
    case Isa::avx2:
      avx2::add_index_kernels(kernels);
      avx2::add_choice_kernels(kernels);
      break;
#endif
    default:
      portable::add_index_kernels(kernels);
      portable::add_choice_kernels(kernels);
      break;
  }
  return kernels;
}

}  // namespace fathom::fast
