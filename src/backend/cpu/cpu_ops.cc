#include "backend/cpu/cpu_ops.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "backend/cpu/exact_ops.h"

namespace fathom {

ExactCpuOps::ExactCpuOps(int num_threads)
    : pool_(num_threads),
      worker_(static_cast<size_t>(num_threads)),
      context_{pool_, cpu::select_dot_kernels(), scratch_, worker_} {}

Result<Buffer> ExactCpuOps::allocate(int64_t bytes) {
  FATHOM_CHECK_LE(0, bytes);
  // calloc takes large blocks from the kernel as zero pages: memory is used when it is first written.
  constexpr size_t alignment = 64;
  void* block = std::calloc(static_cast<size_t>(bytes) + alignment, 1);
  if (block == nullptr) return fail(ErrorCode::out_of_memory, "cannot allocate {} bytes", bytes);
  const auto address = (reinterpret_cast<uintptr_t>(block) + alignment - 1) / alignment * alignment;
  return Buffer(reinterpret_cast<std::byte*>(address), bytes, block,
                [](void* owner, std::byte*, int64_t) { std::free(owner); });
}

void ExactCpuOps::copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

std::unique_ptr<Ops> make_exact_cpu_ops(int num_threads) {
  return std::make_unique<ExactCpuOps>(num_threads);
}

}  // namespace fathom
