// A system that refuses threads, as one does whose limit of processes is reached.
#pragma once

#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "base/thread_start.h"

namespace fathom::test {

/// Starts `allowed` threads and refuses all others.
inline ThreadStarter refuse_threads_after(int allowed) {
  return [left = std::make_shared<int>(allowed)](std::function<void()> body) {
    if ((*left)-- <= 0) throw std::system_error(EAGAIN, std::generic_category());
    return std::thread(std::move(body));
  };
}

}  // namespace fathom::test
