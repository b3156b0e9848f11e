#include "bench/team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "tests/support/refused_thread.h"

namespace fathom::bench {
namespace {

TEST(RunTogether, CallsTheBodyOnEveryThread) {
  std::atomic<int> calls{0};
  run_together(4, [&](int) { ++calls; });
  EXPECT_EQ(calls, 4);
}

// Ends only if those that have started do not wait for the others.
TEST(RunTogether, SaysWhichThreadTheSystemRefused) {
  std::atomic<int> calls{0};
  try {
    run_together(
        4, [&](int) { ++calls; }, test::refuse_threads_after(2));
    FAIL() << "it ran";
  } catch (const std::exception& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with("cannot start thread 4 of 4: ")) << e.what();
  }
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace fathom::bench
