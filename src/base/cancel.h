// How long work is stopped: it asks now and then whether it is still wanted.
#pragma once

#include <functional>

#include "base/result.h"

namespace fathom {

/// `cancelled` may be empty: never. Errors: cancelled.
inline Status check_cancelled(const std::function<bool()>& cancelled) {
  if (cancelled && cancelled()) return fail(ErrorCode::cancelled, "interrupted");
  return {};
}

}  // namespace fathom
