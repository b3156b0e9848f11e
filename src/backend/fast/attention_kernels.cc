#include "backend/fast/attention_kernels.h"

namespace fathom::fast {

// A processor that has an Isa has those before it; each one's kernels take the place of theirs.
AttentionKernels attention_kernels(Isa isa) {
  AttentionKernels kernels{};
  portable::add_attention_kernels(kernels);
#if defined(__x86_64__)
  if (isa >= Isa::avx2) avx2::add_attention_kernels(kernels);
  if (isa >= Isa::avx512) avx512::add_attention_kernels(kernels);
  if (isa >= Isa::amx) amx::add_attention_kernels(kernels);
#endif
  return kernels;
}

}  // namespace fathom::fast
