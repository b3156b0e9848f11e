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

RowKernels row_kernels(Isa isa) {
  RowKernels kernels{};
  switch (isa) {
#if defined(__x86_64__)
    case Isa::amx:
    case Isa::avx512:
      FATHOM_ADD_ROW_KERNELS(avx512);
      break;
    case Isa::avx2:
      FATHOM_ADD_ROW_KERNELS(avx2);
      break;
#endif
    default:
      FATHOM_ADD_ROW_KERNELS(portable);
      break;
  }
  return kernels;
}

}  // namespace fathom::fast
