// Working memory where there is none to be had: not an invariant, since a limit of the system may say so.
#include "backend/fast/scratch.h"

#include <gtest/gtest.h>

#include <csignal>

#include "backend/cpu/scratch.h"

namespace fathom {
namespace {

constexpr int64_t too_many = int64_t{1} << 55;

using ScratchDeathTest = testing::Test;

TEST(ScratchDeathTest, WithoutMemoryThereIsAnUncaughtBadAlloc) {
  const auto take_fast = [] {
    try {
      fast::Scratch().take<float>(fast::Scratch::row, too_many);
    } catch (...) {  // it must not get here, past threads that are at work
    }
  };
  const auto take_exact = [] {
    try {
      cpu::Scratch().floats(cpu::Scratch::input, too_many);
    } catch (...) {
    }
  };
  EXPECT_EXIT(take_fast(), testing::KilledBySignal(SIGABRT), "std::bad_alloc");
  EXPECT_EXIT(take_exact(), testing::KilledBySignal(SIGABRT), "std::bad_alloc");
}

}  // namespace
}  // namespace fathom
