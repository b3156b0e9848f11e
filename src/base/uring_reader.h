// AsyncReader on io_uring.
#pragma once

#include <functional>
#include <memory>

#include "base/async_reader.h"

struct io_uring;
struct io_uring_cqe;

namespace fathom {

/// The calls into the kernel that may fail at any time, each giving minus errno then; tests have some that
/// do.
struct RingCalls {
  std::function<int(io_uring*)> submit;                      // io_uring_submit
  std::function<int(io_uring*, io_uring_cqe**)> wait_entry;  // io_uring_wait_cqe
};
RingCalls kernel_ring_calls();

/// Errors: unsupported, where the kernel has no io_uring or does not allow it; io (a thread that the system
/// refuses).
Result<std::unique_ptr<AsyncReader>> make_uring_reader(const ThreadStarter& starter = start_std_thread,
                                                       RingCalls calls = kernel_ring_calls());

}  // namespace fathom
