// Memory that exists only to be measured with, in huge pages as a fast path's weights are meant to lie: with
// 4 KiB pages a core spends a good part of a streaming read on page walks (27 % on FP4 experts).
#pragma once

#include <cstdint>

#include "base/huge_buffer.h"

namespace fathom::bench {

/// Errors: out_of_memory where the machine and its control groups leave less than `bytes`: whoever took them
/// would be killed.
Status check_room(int64_t bytes);

/// `bytes` >= 0. Errors: out_of_memory, also as check_room() has it.
Result<HugeBuffer> take_spare_memory(int64_t bytes);

}  // namespace fathom::bench
