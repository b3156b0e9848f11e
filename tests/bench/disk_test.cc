#include "bench/disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/checkpoint_builder.h"

namespace fathom::bench {
namespace {

using testing::HasSubstr;

QuietGate still_gate() {
  return QuietGate({.now = [] { return 0.0; }, .sleep = [](double) {}, .probe = [] { return 1.0; }});
}
const Effort once{.seconds = 1e-3, .clean_samples = 1, .min_samples = 1, .cancelled = {}};

TEST(Disk, RefusesWhatCannotBeMeasured) {
  QuietGate gate = still_gate();
  const test::TempDir directory;
  const auto empty = measure_disk(gate, once, directory.path());
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().message, HasSubstr("no file"));
  const auto missing = measure_disk(gate, once, directory / "missing");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("missing"));

  const auto file = test::write_file(directory / "small", "abc");
  const auto small = measure_disk(gate, once, file);
  ASSERT_FALSE(small);
  EXPECT_THAT(small.error().message,
              testing::AnyOf(HasSubstr("found one of 3 B; another one can be named"),
                             HasSubstr("page cache")));  // of a file system without direct reads
  std::filesystem::resize_file(file, 64 << 20);          // all of it a hole; or refused for another reason
  EXPECT_FALSE(measure_disk(gate, once, file));
}

TEST(Disk, TakesRegularFilesOnly) {
  const test::TempDir directory;
  const std::string fifo = directory / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, std::string("/dev/zero")}) {
    const auto found = find_disk_file(path);  // a pipe must not be waited for
    ASSERT_FALSE(found);
    EXPECT_THAT(found.error().message, HasSubstr(path + ": expected a regular file, found a "));
  }
  const auto kernel = find_disk_file("/proc/meminfo");
  ASSERT_FALSE(kernel);
  EXPECT_THAT(kernel.error().message, HasSubstr("/proc/meminfo: expected a"));
}

TEST(Disk, ReadsTheLargestFileOfADirectory) {
  QuietGate gate = still_gate();
  // Where the build is: a temporary directory may be memory, where there are no direct reads.
  const auto directory = std::filesystem::current_path() / "bench-disk-test";
  std::filesystem::create_directories(directory / "below");
  test::write_file(directory / "small", std::string(size_t{1} << 20, 'a'));
  test::write_file(directory / "below" / "large", std::string(size_t{17} << 20, 'a'));
  ::sync();  // blocks are counted when they are written
  const auto disk = measure_disk(gate, once, directory);
  std::filesystem::remove_all(directory);
  if (!disk) GTEST_SKIP() << disk.error().message;  // a file system without direct reads
  EXPECT_THAT(disk->file.string(), HasSubstr("below/large"));
  EXPECT_GT(disk->sequential.median, 0);
  EXPECT_GT(disk->random.median, 0);
  EXPECT_LE(disk->random.median, disk->random.best);
}

TEST(Disk, PassesOverDirectoriesThatItMayNotRead) {
  const test::TempDir directory;
  const std::filesystem::path locked = directory / "locked";
  std::filesystem::create_directory(locked);
  test::write_file(directory / "large", std::string(size_t{17} << 20, 'a'));
  std::filesystem::permissions(directory.path(), std::filesystem::perms::all);
  std::filesystem::permissions(locked, std::filesystem::perms::none);
  constexpr uid_t nobody = 65534;
  const bool root = ::geteuid() == 0;  // who may read everything
  if (root && ::seteuid(nobody) != 0) GTEST_SKIP() << "cannot be anyone but root";
  const auto found = find_disk_file(directory.path());
  ASSERT_TRUE(!root || ::seteuid(0) == 0);
  std::filesystem::permissions(locked, std::filesystem::perms::owner_all);
  // A temporary directory may be memory, where there are no direct reads.
  const std::string result = found ? found->string() : found.error().message;
  EXPECT_THAT(result, HasSubstr("/large"));
}

}  // namespace
}  // namespace fathom::bench
