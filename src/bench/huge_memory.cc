#include "bench/huge_memory.h"

#include <sys/mman.h>

#include "base/check.h"
#include "base/memory_limit.h"
#include "base/size_text.h"

namespace fathom::bench {
namespace {

constexpr size_t huge_page = size_t{2} << 20;

}  // namespace

Status check_room(int64_t bytes) {
  if (const MemoryLimit limit = available_memory(); !limit.source.empty() && bytes > limit.bytes)
    return fail(ErrorCode::out_of_memory, "cannot allocate {}: only {} are left ({})", size_text(bytes),
                size_text(limit.bytes), limit.source);
  return {};
}

Result<HugeMemory> HugeMemory::allocate(int64_t bytes) {
  FATHOM_CHECK_LE(0, bytes);
  FATHOM_TRY(check_room(bytes));
  HugeMemory memory;
  memory.mapped_bytes_ = static_cast<size_t>(bytes) + huge_page;  // room to align
  void* mapping = ::mmap(nullptr, memory.mapped_bytes_, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return fail(ErrorCode::out_of_memory, "cannot allocate {} bytes", bytes);
  memory.mapping_ = mapping;
  const auto address = (reinterpret_cast<uintptr_t>(mapping) + huge_page - 1) / huge_page * huge_page;
  memory.data_ = reinterpret_cast<std::byte*>(address);
  memory.bytes_ = bytes;
  // Where the kernel does not take the advice, reading is slower and as right as before.
  (void)::madvise(mapping, memory.mapped_bytes_, MADV_HUGEPAGE);
  return memory;
}

HugeMemory::~HugeMemory() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapped_bytes_);
}

}  // namespace fathom::bench
