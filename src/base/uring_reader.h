// AsyncReader on io_uring.
#pragma once

#include <memory>

#include "base/async_reader.h"

namespace fathom {

/// Errors: unsupported, where the kernel has no io_uring or does not allow it.
Result<std::unique_ptr<AsyncReader>> make_uring_reader();

}  // namespace fathom
