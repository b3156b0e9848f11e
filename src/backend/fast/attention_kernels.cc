#include "backend/fast/attention_kernels.h"

namespace fathom::fast {

AttentionKernels attention_kernels(Isa isa) {
  AttentionKernels kernels{};
  switch (isa) {
#if defined(__x86_64__)
    case Isa::amx:
    case Isa::avx512:
      avx512::add_attention_kernels(kernels);
      if (isa == Isa::amx) amx::add_attention_kernels(kernels);
      break;
    case Isa::avx2:
      avx2::add_attention_kernels(kernels);
      break;
#endif
    default:
      portable::add_attention_kernels(kernels);
      break;
  }
  return kernels;
}

}  // namespace fathom::fast
