#include "base/threads.h"

#include <sched.h>

#include <algorithm>
#include <stdexcept>

#include "base/check.h"

namespace fathom {

// Loops follow each other within microseconds, and waking a sleeper costs many: wait awake for a moment.
template <class Condition>
void ThreadPool::wait_awake(const Condition& condition) const {
  for (int i = 0; i < patience_ && !condition(); ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

// With more workers than processors, one that waits awake keeps another from working.
ThreadPool::ThreadPool(int num_threads, const ThreadStarter& starter)
    : patience_(num_threads <= available_processors() ? 4000 : 0) {
  FATHOM_CHECK_LE(1, num_threads);
  workers_.reserve(static_cast<size_t>(num_threads - 1));
  for (int i = 1; i < num_threads; ++i) {
    auto worker = start_thread(starter, i + 1, num_threads, [this, i] { worker_main(i); });
    if (!worker) {
      stop();  // those that wait already, which no destructor will see
      throw std::runtime_error(worker.error().message);
    }
    workers_.push_back(std::move(*worker));
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::work(const Loop& loop, int worker) {
  for (;;) {
    const int64_t begin = next_.fetch_add(loop.grain, std::memory_order_relaxed);
    if (begin >= loop.count) return;
    (*loop.body)(begin, std::min(begin + loop.grain, loop.count), worker);
  }
}

// Into a loop other than the `seen` one, if it is open; it is the one seen then.
bool ThreadPool::enter(uint64_t& seen) {
  uint64_t gate = gate_.load();
  while (gate / number != seen && (gate & open) != 0) {
    if (!gate_.compare_exchange_weak(gate, gate + inside)) continue;
    seen = gate / number;
    return true;
  }
  return false;
}

void ThreadPool::leave() {
  gate_.fetch_sub(inside);
  if (!caller_sleeps_.load()) return;
  std::lock_guard lock(mutex_);
  done_.notify_one();
}

void ThreadPool::worker_main(int worker) {
  uint64_t seen = 0;
  for (;;) {
    bool entered = false;
    wait_awake([&] { return stopping_.load() || (entered = enter(seen)); });
    if (!entered && !stopping_.load()) {
      std::unique_lock lock(mutex_);
      ++sleepers_;
      wake_.wait(lock, [&] { return stopping_.load() || (entered = enter(seen)); });
      --sleepers_;
    }
    if (!entered) return;
    work(loop_, worker);
    leave();
  }
}

void ThreadPool::parallel_for(int64_t count, int64_t grain,
                              const std::function<void(int64_t, int64_t)>& body) noexcept {
  parallel_for_workers(count, grain, [&body](int64_t begin, int64_t end, int) { body(begin, end); });
}

void ThreadPool::parallel_for_workers(int64_t count, int64_t grain, const WorkerBody& body) noexcept {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  if (workers_.empty() || count <= grain) {
    for (int64_t i = 0; i < count; i += grain) body(i, std::min(i + grain, count), 0);
    return;
  }
  std::lock_guard caller(caller_mutex_);
  loop_ = {&body, count, grain};
  next_.store(0, std::memory_order_relaxed);
  gate_.fetch_add(number | open);
  if (sleepers_.load() > 0) {
    { std::lock_guard lock(mutex_); }  // those who have seen the gate shut sleep now
    wake_.notify_all();
  }
  work(loop_, 0);
  gate_.fetch_sub(open);
  const auto empty = [&] { return (gate_.load() & all_inside) == 0; };
  wait_awake(empty);
  if (empty()) return;
  std::unique_lock lock(mutex_);
  caller_sleeps_ = true;
  done_.wait(lock, empty);
  caller_sleeps_ = false;
}

int available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

}  // namespace fathom
