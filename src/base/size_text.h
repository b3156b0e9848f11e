// Sizes of memory as people write them: "16G", "512 MiB", "1.5T".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fathom {

/// A number with an optional fraction and an optional unit: B, K, M, G or T, also spelled KB or KiB and so
/// on; all are powers of 1024. Case and a space before the unit do not matter. Errors: invalid_argument (not
/// of this form, negative, 2^62 bytes or more).
Result<int64_t> parse_size(std::string_view text);

/// "17.3 MiB"; `bytes` >= 0.
std::string size_text(int64_t bytes);

}  // namespace fathom
