#include "base/memory_limit.h"

#include <gtest/gtest.h>

#include "tests/support/fake_machine.h"

namespace fathom {
namespace {

class Machine : public test::FakeMachine {
 public:
  MemoryLimit available() const { return available_memory(root()); }
  MemoryLimit total() const { return total_memory(root()); }
  std::string source() const {
    return std::filesystem::path(available().source).lexically_relative(root()).string();
  }
};

constexpr const char* meminfo = "MemTotal:       32000 kB\nMemFree:  10 kB\nMemAvailable:   20000 kB\n";

TEST(MemoryLimit, IsWhatTheMachineHasWithoutGroups) {
  Machine m;
  m.file("proc/meminfo", meminfo);
  EXPECT_EQ(m.available().bytes, 20000 * 1024);
  EXPECT_EQ(m.source(), "proc/meminfo");
}

TEST(MemoryLimit, IsNothingWhereNothingCanBeRead) { EXPECT_EQ(Machine().available().bytes, 0); }

TEST(MemoryLimit, CountsAllAncestorsOfAGroup) {
  Machine m;
  m.file("proc/meminfo", meminfo);
  m.in_group("outer/inner").group("outer", "10000000", 4000000).group("outer/inner", "max", 1000);
  EXPECT_EQ(m.available().bytes, 6000000);
  EXPECT_EQ(m.source(), "sys/fs/cgroup/outer");
}

TEST(MemoryLimit, KnowsWhatThereIsInAll) {
  Machine m;
  m.file("proc/meminfo", meminfo);
  EXPECT_EQ(m.available().total, 32000 * 1024);
  EXPECT_EQ(m.total().total, 32000 * 1024);
  // The outer group has less left, the inner one less in all.
  m.in_group("outer/inner").group("outer", "10000000", 9000000).group("outer/inner", "7000000", 1000);
  EXPECT_EQ(m.available().bytes, 1000000);
  EXPECT_EQ(m.available().total, 10000000);
  EXPECT_EQ(m.total().total, 7000000);
  EXPECT_TRUE(m.total().source.ends_with("sys/fs/cgroup/outer/inner"));
}

TEST(MemoryLimit, FileCacheDoesNotCountAsUsed) {
  Machine m;
  m.file("proc/meminfo", meminfo).in_group("g").group("g", "10000000", 9000000);
  m.file("sys/fs/cgroup/g/memory.stat",
         "anon 1\ninactive_file 3000000\nactive_file 2000000\nslab_reclaimable 500000\n");
  EXPECT_EQ(m.available().bytes, 10000000 - (9000000 - 5500000));
}

TEST(MemoryLimit, HighLimitsBelowMax) {
  Machine m;
  m.file("proc/meminfo", meminfo).in_group("g").group("g", "10000000", 9000000);
  m.file("sys/fs/cgroup/g/memory.high", "8000000\n");
  EXPECT_EQ(m.available().bytes, 0);  // never negative
}

TEST(MemoryLimit, ReadsVersionOneInAContainer) {
  Machine m;
  m.file("proc/meminfo", meminfo)
      .file("proc/self/mountinfo",
            "33 30 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
            "34 30 0:31 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
            "35 30 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n")
      .file("proc/self/cgroup", "4:memory:/docker/abc/job\n1:cpu:/docker/abc\n0::/\n")
      .file("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "5000000\n")
      .file("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "2000000\n")
      .file("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 9\ntotal_inactive_file 500000\n")
      .file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
      .file("sys/fs/cgroup/memory/memory.usage_in_bytes", "3000000\n");
  EXPECT_EQ(m.available().bytes, 3500000);
  EXPECT_EQ(m.source(), "sys/fs/cgroup/memory/job");
}

TEST(MeasuringBytes, AreAQuarterOfWhatIsLeftAtMost) {
  constexpr int64_t mib = int64_t{1} << 20;
  EXPECT_EQ(measuring_bytes(256 * mib, 64 * mib, {8192 * mib, "group"}).value(), 256 * mib);
  EXPECT_EQ(measuring_bytes(256 * mib, 64 * mib, {400 * mib, "group"}).value(), 100 * mib);
  EXPECT_EQ(measuring_bytes(256 * mib, 64 * mib, {}).value(), 256 * mib);  // nothing says what is left
  const auto little = measuring_bytes(256 * mib, 64 * mib, {200 * mib, "/sys/fs/cgroup/g"});
  ASSERT_FALSE(little);
  EXPECT_EQ(little.error().message,
            "too little memory to measure with: expected 256.0 MiB to be left, found 200.0 MiB "
            "(/sys/fs/cgroup/g)");
}

TEST(UsedMemory, IsWhatCannotBeDropped) {
  Machine m;
  m.file("proc/self/status", "VmRSS:  900 kB\nRssAnon:\t 100 kB\nRssFile:\t 700 kB\nRssShmem:\t 100 kB\n");
  EXPECT_EQ(used_memory(m.root()), 200 * 1024);
}

TEST(UsedMemory, OfThisProcessIsSomething) { EXPECT_GT(used_memory(), 0); }

}  // namespace
}  // namespace fathom
