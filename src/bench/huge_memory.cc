#include "bench/huge_memory.h"

#include <sys/mman.h>

#include <fstream>
#include <limits>
#include <string>

#include "base/check.h"

namespace fathom::bench {
namespace {

constexpr size_t huge_page = size_t{2} << 20;

}  // namespace

Result<HugeMemory> HugeMemory::allocate(int64_t bytes) {
  FATHOM_CHECK_LE(0, bytes);
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

int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string name; file >> name;) {
    int64_t kilobytes = 0;
    if (name == "MemAvailable:" && file >> kilobytes) return kilobytes * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

}  // namespace fathom::bench
