// Fixed work on several threads at once, timed from the moment when all of them are ready.
#pragma once

#include <functional>

#include "base/thread_start.h"

namespace fathom::bench {

/// Seconds on a steady clock.
double seconds_now();

/// Calls body(thread), 0 <= thread < num_threads, on as many threads at once, the caller's included. Gives
/// the seconds from the start of all to the end of the last. `body` must not throw. Where the system refuses
/// a thread, body is called on none: throws std::runtime_error, as ThreadPool does.
double run_together(int num_threads, const std::function<void(int)>& body,
                    const ThreadStarter& starter = start_std_thread);

}  // namespace fathom::bench
