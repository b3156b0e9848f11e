#include "bench/spare_memory.h"

#include "base/memory_limit.h"
#include "base/size_text.h"

namespace fathom::bench {

Status check_room(int64_t bytes) {
  if (const MemoryLimit limit = available_memory(); !limit.source.empty() && bytes > limit.bytes)
    return fail(ErrorCode::out_of_memory, "cannot allocate {}: only {} are left ({})", size_text(bytes),
                size_text(limit.bytes), limit.source);
  return {};
}

Result<HugeBuffer> take_spare_memory(int64_t bytes) {
  FATHOM_TRY(check_room(bytes));
  return HugeBuffer::allocate(bytes);
}

}  // namespace fathom::bench
