#include "backend/fast/row_kernels.h"

namespace fathom::fast {

#define FATHOM_ADD_ROW_KERNELS(isa)     \
  do {                                  \
    isa::add_norm_kernels(kernels);     \
    isa::add_hyper_kernels(kernels);    \
    isa::add_rotate_kernels(kernels);   \
    isa::add_quantize_kernels(kernels); \
    isa::add_element_kernels(kernels);  \
    isa::add_route_kernels(kernels);    \
  } while (false)

// A processor that has an Isa has those before it; each one's kernels take the place of theirs.
RowKernels row_kernels(Isa isa) {
  RowKernels kernels{};
  FATHOM_ADD_ROW_KERNELS(portable);
#if defined(__x86_64__)
  if (isa >= Isa::avx2) FATHOM_ADD_ROW_KERNELS(avx2);
  if (isa >= Isa::avx512) FATHOM_ADD_ROW_KERNELS(avx512);
#endif
  return kernels;
}

}  // namespace fathom::fast
