#include "base/page_advice.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace fathom {
namespace {

void advise(std::span<const std::byte> bytes, int advice) {
  if (bytes.empty()) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first_page = begin / page * page;
  // The last page is taken whole by the kernel.
  (void)::madvise(reinterpret_cast<void*>(first_page), bytes.size() + (begin - first_page), advice);
}

}  // namespace

void advise_random(std::span<const std::byte> bytes) { advise(bytes, MADV_RANDOM); }
void advise_will_need(std::span<const std::byte> bytes) { advise(bytes, MADV_WILLNEED); }

}  // namespace fathom
