#include "bench/team.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/check.h"

namespace fathom::bench {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double run_together(int num_threads, const std::function<void(int)>& body, const ThreadStarter& starter) {
  FATHOM_CHECK_LE(1, num_threads);
  std::atomic<int> missing{num_threads};
  std::atomic<bool> called_off{false};
  struct alignas(64) Times {
    double begin = 0, end = 0;
  };
  std::vector<Times> times(static_cast<size_t>(num_threads));
  const auto work = [&](int thread) {
    missing.fetch_sub(1);
    while (missing.load() > 0) {
      if (called_off.load()) return;
      std::this_thread::yield();
    }
    Times& mine = times[static_cast<size_t>(thread)];
    mine.begin = seconds_now();
    body(thread);
    mine.end = seconds_now();
  };
  std::vector<std::thread> others;
  Status started;
  for (int i = 1; i < num_threads && started; ++i) {
    auto thread = start_thread(starter, i + 1, num_threads, [&work, i] { work(i); });
    if (thread)
      others.push_back(std::move(*thread));
    else
      started = fail(std::move(thread).error());
  }
  if (started)
    work(0);
  else
    called_off = true;
  for (std::thread& thread : others) thread.join();
  if (!started) throw std::runtime_error(started.error().message);
  double begin = times[0].begin;
  double end = times[0].end;
  for (const Times& t : times) {
    begin = std::min(begin, t.begin);
    end = std::max(end, t.end);
  }
  return end - begin;
}

}  // namespace fathom::bench
