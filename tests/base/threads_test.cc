#include "base/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/refused_thread.h"

namespace fathom {
namespace {

// How often each item was visited; every range at most `grain` long.
std::vector<int> visits(ThreadPool& pool, int64_t count, int64_t grain) {
  std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
  pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    EXPECT_LT(begin, end);
    EXPECT_LE(end - begin, std::max<int64_t>(grain, 1));
    for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
  });
  return std::vector<int>(seen.begin(), seen.end());
}

TEST(ThreadPool, VisitsEveryItemOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.num_threads(), threads);
    for (const int64_t count : {1, 2, 7, 64, 1000})
      for (const int64_t grain : {0, 1, 3, 64, 5000})
        EXPECT_EQ(visits(pool, count, grain), std::vector<int>(static_cast<size_t>(count), 1))
            << threads << " threads, " << count << " items, grain " << grain;
  }
}

TEST(ThreadPool, DoesNothingForNoItems) {
  ThreadPool pool(2);
  for (const int64_t count : {int64_t{0}, int64_t{-1}, INT64_MIN})
    pool.parallel_for(count, 1, [](int64_t, int64_t) { FAIL(); });
}

TEST(ThreadPool, UsesItsThreads) {
  ThreadPool pool(3);
  std::mutex mutex;
  std::set<std::thread::id> workers;
  std::atomic<int> waiting{0};
  // Each item waits for the other two, so three threads are needed to get through.
  pool.parallel_for(3, 1, [&](int64_t, int64_t) {
    {
      std::lock_guard lock(mutex);
      workers.insert(std::this_thread::get_id());
    }
    for (++waiting; waiting < 3;) std::this_thread::yield();
  });
  EXPECT_EQ(workers.size(), 3u);
}

TEST(ThreadPool, IsDoneWhenItReturns) {
  ThreadPool pool(4);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int> squares(17, -1);  // not atomic: the pool must publish them
    pool.parallel_for(17, 2, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) squares[static_cast<size_t>(i)] = static_cast<int>(i * i);
    });
    ASSERT_EQ(std::accumulate(squares.begin(), squares.end(), 0), 1496) << "round " << round;
  }
}

TEST(ThreadPool, TakesTurnsBetweenCallers) {
  ThreadPool pool(2);
  std::atomic<int> items{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int round = 0; round < 100; ++round)
        pool.parallel_for(10, 1, [&](int64_t begin, int64_t end) { items += static_cast<int>(end - begin); });
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(items, 4000);
}

// Workers that are not there yet, as when their processors are busy.
TEST(ThreadPool, WaitsForNobodyWhoHasNotCome) {
  std::atomic<bool> come{false};
  const ThreadStarter late = [&](std::function<void()> body) {
    return std::thread([&come, body = std::move(body)] {
      come.wait(false);
      body();
    });
  };
  ThreadPool pool(3, late);
  EXPECT_EQ(visits(pool, 100, 1), std::vector<int>(100, 1));
  come = true;
  come.notify_all();
  for (int round = 0; round < 100; ++round) EXPECT_EQ(visits(pool, 100, 1), std::vector<int>(100, 1));
}

// Ends only if those that have started are stopped and joined.
TEST(ThreadPool, SaysWhichThreadTheSystemRefused) {
  for (const int allowed : {0, 1, 6}) {
    try {
      ThreadPool pool(8, test::refuse_threads_after(allowed));
      FAIL() << "there is a pool of " << pool.num_threads();
    } catch (const std::exception& e) {
      EXPECT_EQ(std::string(e.what()), fmt::format("cannot start thread {} of 8: {}", allowed + 2,
                                                   std::generic_category().message(EAGAIN)));
    }
  }
}

TEST(ThreadPool, StartsAndStopsUnused) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(4);
}

TEST(AvailableProcessors, IsPositive) { EXPECT_GE(available_processors(), 1); }

}  // namespace
}  // namespace fathom
