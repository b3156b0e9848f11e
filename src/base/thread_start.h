// Starting threads, which the system may refuse.
#pragma once

#include <functional>
#include <thread>

#include "base/result.h"

namespace fathom {

/// Starts a thread with this body, or throws std::system_error as std::thread does; tests have one that
/// refuses.
using ThreadStarter = std::function<std::thread(std::function<void()> body)>;
std::thread start_std_thread(std::function<void()> body);

/// Thread `number` of `total`, the caller's included where it works too. Errors: io ("cannot start thread 3
/// of 8: Resource temporarily unavailable").
Result<std::thread> start_thread(const ThreadStarter& starter, int number, int total,
                                 std::function<void()> body);

}  // namespace fathom
