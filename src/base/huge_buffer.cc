#include "base/huge_buffer.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace fathom {

Result<HugeBuffer> HugeBuffer::allocate(int64_t bytes) {
  FATHOM_CHECK_LE(0, bytes);
  HugeBuffer buffer;
  if (bytes == 0) return buffer;
  const auto size = static_cast<size_t>((bytes + alignment - 1) / alignment * alignment);
  constexpr auto spare = static_cast<size_t>(alignment);
  void* block = ::mmap(nullptr, size + spare, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED)
    return fail(ErrorCode::out_of_memory, "cannot allocate {} bytes: {}", bytes, std::strerror(errno));
  // The kernel aligns to small pages: give back what stands over on both sides.
  auto* const begin = static_cast<std::byte*>(block);
  const size_t before = (spare - reinterpret_cast<uintptr_t>(begin) % spare) % spare;
  if (before > 0) ::munmap(begin, before);
  if (before < spare) ::munmap(begin + before + size, spare - before);
  buffer.data_ = begin + before;
  buffer.bytes_ = static_cast<int64_t>(size);
  (void)::madvise(buffer.data_, size, MADV_HUGEPAGE);
  return buffer;
}

HugeBuffer::~HugeBuffer() {
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(bytes_));
}

}  // namespace fathom
