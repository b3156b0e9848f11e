// A pool of workers for loops over independent items.
//
// The pool decides only who computes an item, never how: an item's result must not depend on the
// worker or on the order, so results are the same for every thread count.
//
// A loop does not wait for workers: who comes while there is something left takes part, and the caller waits
// for those alone. So a worker that wakes late, or has no processor, delays nobody.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/thread_start.h"

namespace fathom {

class ThreadPool {
 public:
  using WorkerBody = std::function<void(int64_t begin, int64_t end, int worker)>;

  /// `num_threads` workers in all, the caller included (at least 1). Workers wait awake for a moment after a
  /// loop, then sleep. Where the system refuses a thread there is no pool: throws std::runtime_error with the
  /// message of start_thread, which ends the command as std::bad_alloc does.
  explicit ThreadPool(int num_threads, const ThreadStarter& starter = start_std_thread);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(begin, end) on disjoint ranges of at most `grain` items that cover [0, count), on all
  /// workers, and returns when all are done. One loop at a time: calls from several threads take turns;
  /// a call from inside a body is not allowed. What `body` throws ends the process: others may be in the
  /// midst of the loop.
  void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) noexcept;

  /// The same, with the number of the worker, 0 <= worker < num_threads(): for memory of its own to work in.
  /// Worker 0 is the caller.
  void parallel_for_workers(int64_t count, int64_t grain, const WorkerBody& body) noexcept;

 private:
  struct Loop {
    const WorkerBody* body = nullptr;
    int64_t count = 0;
    int64_t grain = 1;
  };
  // The gate of a loop: its number, whether it is open, and how many workers are inside.
  static constexpr uint64_t inside = 1;
  static constexpr uint64_t all_inside = (uint64_t{1} << 32) - 1;
  static constexpr uint64_t open = uint64_t{1} << 32;
  static constexpr uint64_t number = uint64_t{1} << 33;

  template <class Condition>
  void wait_awake(const Condition& condition) const;
  void stop();
  void work(const Loop& loop, int worker);
  bool enter(uint64_t& seen);
  void leave();
  void worker_main(int worker);

  int patience_;  // how long to wait awake
  std::vector<std::thread> workers_;
  std::mutex caller_mutex_;  // held for the whole of one loop
  Loop loop_;                // changes while the gate is shut and nobody inside
  std::atomic<uint64_t> gate_{0};
  std::atomic<int64_t> next_{0};
  // Sleeping: who is about to sleep says so before it looks at the gate for the last time; who changes the
  // gate looks for sleepers afterwards. All four in one order, so that one of the two sees the other.
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::atomic<int> sleepers_{0};
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<bool> stopping_{false};
};

/// The number of processors this process may run on (affinity mask respected), at least 1.
int available_processors();

}  // namespace fathom
