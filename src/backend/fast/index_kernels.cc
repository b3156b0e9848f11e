#include "backend/fast/index_kernels.h"

namespace fathom::fast {

// A processor that has an Isa has those before it; each one's kernels take the place of theirs.
IndexKernels index_kernels(Isa isa) {
  IndexKernels kernels{};
  portable::add_index_kernels(kernels);
  portable::add_choice_kernels(kernels);
#if defined(__x86_64__)
  if (isa >= Isa::avx2) {
    avx2::add_index_kernels(kernels);
    avx2::add_choice_kernels(kernels);
  }
  if (isa >= Isa::avx512) {
    avx512::add_index_kernels(kernels);
    avx512::add_choice_kernels(kernels);
  }
  if (isa >= Isa::amx) amx::add_index_kernels(kernels);
#endif
  return kernels;
}

}  // namespace fathom::fast
