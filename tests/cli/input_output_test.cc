#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "cli/environment.h"
#include "cli/line_source.h"
#include "cli/output.h"
#include "cli/signals.h"

namespace fathom {
namespace {

using testing::HasSubstr;

/// A pipe whose ends close with it.
struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends), 0); }
  ~Pipe() {
    close(ends[0]);
    close_writer();
  }
  void close_writer() {
    if (ends[1] >= 0) close(ends[1]);
    ends[1] = -1;
  }
  void fill(std::string_view text) {
    EXPECT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close_writer();
  }
  int ends[2] = {-1, -1};
};

TEST(Environment, FindsTheStateDirectory) {
  std::map<std::string, std::string> set;
  const auto history = [&] {
    return read_environment([&](const char* name) {
             const auto found = set.find(name);
             return found == set.end() ? nullptr : found->second.c_str();
           })
        .history_file.string();
  };
  EXPECT_EQ(history(), "");
  set["HOME"] = "/home/x";
  EXPECT_EQ(history(), "/home/x/.local/state/fathom/history");
  set["XDG_STATE_HOME"] = "relative";
  EXPECT_EQ(history(), "/home/x/.local/state/fathom/history");
  set["XDG_STATE_HOME"] = "/state";
  EXPECT_EQ(history(), "/state/fathom/history");
}

TEST(Output, WritesOnFlushAndWhenFull) {
  Pipe pipe;
  Output out(pipe.ends[1], "standard output");
  EXPECT_TRUE(out.write("ab"));
  EXPECT_TRUE(out.write("c"));
  EXPECT_TRUE(out.flush());
  EXPECT_TRUE(out.flush());
  char buffer[8] = {};
  EXPECT_EQ(read(pipe.ends[0], buffer, sizeof(buffer)), 3);
  EXPECT_STREQ(buffer, "abc");
}

TEST(Output, AFailedWriteIsAnError) {
  const int full = open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  Output out(full, "standard output");
  EXPECT_TRUE(out.write("x"));
  const Status status = out.flush();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::io);
  EXPECT_THAT(status.error().message, HasSubstr("standard output: No space left"));
  EXPECT_FALSE(out.write(std::string(1 << 20, 'x')));
  close(full);
}

TEST(Output, ControlCharactersDoNotReachATerminal) {
  EXPECT_EQ(without_controls("a\n\tb\u00e9\u2026"), "a\n\tb\u00e9\u2026");
  EXPECT_EQ(without_controls("\x1b[2J\r\x7f"), "\ufffd[2J\ufffd\ufffd");
  EXPECT_EQ(without_controls("x\u009b1m\u00a0"), "x\ufffd1m\u00a0");
  EXPECT_EQ(without_controls(std::string_view("\0", 1)), "\ufffd");
  EXPECT_EQ(without_controls("\xC2"), "\xC2");
}

TEST(PlainLines, GivesLinesAndThenTheEnd) {
  Pipe pipe;
  pipe.fill("one\n\nthree \r\nlast");
  const auto lines = plain_lines(pipe.ends[0], "standard input");
  for (const char* expected : {"one", "", "three \r", "last"}) {
    const auto line = lines->next("");
    ASSERT_TRUE(line && *line);
    EXPECT_EQ(**line, expected);
  }
  for (int i = 0; i < 2; ++i) {
    const auto end = lines->next("");
    ASSERT_TRUE(end);
    EXPECT_FALSE(*end);
  }
}

TEST(PlainLines, RefusesALongLine) {
  Pipe pipe;
  pipe.fill("ok\n" + std::string(100, 'x') + "\n");
  const auto lines = plain_lines(pipe.ends[0], "standard input", 50);
  EXPECT_TRUE(lines->next(""));
  const auto line = lines->next("");
  ASSERT_FALSE(line);
  EXPECT_THAT(line.error().message, HasSubstr("standard input: line 2 is longer than 50 bytes"));
}

TEST(PlainLines, NamesReadErrors) {
  const int directory = open("/", O_RDONLY);
  const auto lines = plain_lines(directory, "standard input");
  const auto line = lines->next("");
  ASSERT_FALSE(line);
  EXPECT_THAT(line.error().message, HasSubstr("standard input: Is a directory"));
  close(directory);
}

TEST(Signals, AnInterruptSetsAFlag) {
  install_signal_handlers();
  EXPECT_FALSE(interrupted());
  raise(SIGINT);
  EXPECT_TRUE(interrupted());
  EXPECT_TRUE(take_interrupt());
  EXPECT_FALSE(interrupted());
  signal(SIGINT, SIG_DFL);
}

using SignalsDeathTest = testing::Test;

TEST(SignalsDeathTest, ASecondInterruptEndsTheProcess) {
  EXPECT_EXIT(
      {
        install_signal_handlers();
        raise(SIGINT);
        raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

TEST(SignalsDeathTest, ALostPageOfAMappedFileIsAMessageThatNamesIt) {
  EXPECT_EXIT(
      {
        install_signal_handlers();
        char path[] = "/tmp/fathom-signals-XXXXXX";
        const int fd = mkstemp(path);
        unlink(path);
        if (fd < 0 || ftruncate(fd, 8192) != 0) abort();
        const auto* data =
            static_cast<const volatile char*>(mmap(nullptr, 8192, PROT_READ, MAP_SHARED, fd, 0));
        if (ftruncate(fd, 0) != 0) abort();
        _exit(data[4096] == 0 ? 3 : 4);
      },
      testing::ExitedWithCode(1), "fathom: /tmp/fathom-signals-[^ ]* .*was cut short");
}

// Threads that compute have nobody to tell.
TEST(SignalsDeathTest, MemoryThatRunsOutInAThreadIsAMessage) {
  const auto in_a_thread = [](const auto& body) {
    install_terminate_handler();
    std::thread(body).join();
  };
  const auto throws = [] { throw std::bad_alloc(); };
  EXPECT_EXIT(in_a_thread(throws), testing::ExitedWithCode(1), "^fathom: out of memory\n$");
  const auto throws_another = [] { throw std::runtime_error("another"); };
  EXPECT_EXIT(in_a_thread(throws_another), testing::KilledBySignal(SIGABRT), "another");
}

}  // namespace
}  // namespace fathom
