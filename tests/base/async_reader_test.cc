#include "base/async_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <liburing.h>

#include <atomic>
#include <cstring>
#include <random>
#include <vector>

#include "base/huge_buffer.h"
#include "base/uring_reader.h"
#include "tests/support/checkpoint_builder.h"
#include "tests/support/refused_thread.h"

namespace fathom {
namespace {

using test::TempDir;
using test::write_file;
using testing::HasSubstr;
using Engine = AsyncReader::Engine;
using Mode = DirectFile::Mode;

std::string random_bytes(size_t n) {
  std::mt19937_64 random(7);
  std::string out(n, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

class AsyncReaderTest : public testing::TestWithParam<std::pair<Engine, Mode>> {
 protected:
  void SetUp() override {
    auto reader = AsyncReader::create(GetParam().first);
    if (!reader && GetParam().first == Engine::io_uring) GTEST_SKIP() << reader.error().message;
    reader_ = std::move(*reader);
    memory_ = HugeBuffer::allocate(64 << 20).value();
  }
  std::shared_ptr<const DirectFile> file(const std::string& content) {
    return DirectFile::open(write_file(dir_ / "data", content), GetParam().second).value();
  }
  std::string memory(size_t at, size_t n) const {
    return {reinterpret_cast<const char*>(memory_.data()) + at, n};
  }
  Status read(const ReadRequest& request) {
    return reader_->wait(reader_->submit({&request, 1}, ReadUrgency::needed));
  }

  TempDir dir_;
  HugeBuffer memory_;
  std::unique_ptr<AsyncReader> reader_;  // before the memory goes
};

TEST_P(AsyncReaderTest, ReadsWholeFilesOfAnyLength) {
  for (const size_t n : {size_t{1}, size_t{4096}, size_t{5000}, (size_t{1} << 20) + 1, size_t{7340033}}) {
    const std::string content = random_bytes(n);
    const auto f = file(content);
    ASSERT_TRUE(read({f.get(), 0, n, memory_.data()})) << n;
    EXPECT_EQ(memory(0, n), content) << n;
  }
}

TEST_P(AsyncReaderTest, ReadsManyScatteredBlocks) {
  const std::string content = random_bytes(4 << 20);
  const auto f = file(content);
  std::vector<ReadRequest> requests;
  for (size_t i = 0; i < 1000; ++i) {
    const size_t block = i * 7919 % 1023;
    requests.push_back({f.get(), block * 4096, 4096 + i % 4096, memory_.data() + i * 8192});
  }
  const AsyncReader::Ticket ticket = reader_->submit(requests, ReadUrgency::needed);
  ASSERT_TRUE(reader_->wait(ticket));
  for (size_t i = 0; i < requests.size(); ++i)
    ASSERT_EQ(memory(i * 8192, requests[i].bytes), content.substr(requests[i].offset, requests[i].bytes))
        << i;
}

TEST_P(AsyncReaderTest, WaitsForAnyOfSeveralBatches) {
  const std::string content = random_bytes(8 << 20);
  const auto f = file(content);
  std::vector<AsyncReader::Ticket> tickets;
  for (size_t i = 0; i < 8; ++i) {
    const ReadRequest request{f.get(), i << 20, size_t{1} << 20, memory_.data() + (i << 20)};
    tickets.push_back(reader_->submit({&request, 1}, i % 2 ? ReadUrgency::ahead : ReadUrgency::needed));
  }
  reader_->hurry(tickets[7]);
  while (!tickets.empty()) {
    reader_->wait_any(tickets);
    const auto done =
        std::find_if(tickets.begin(), tickets.end(), [&](AsyncReader::Ticket t) { return reader_->done(t); });
    ASSERT_NE(done, tickets.end());
    EXPECT_TRUE(reader_->wait(*done));
    tickets.erase(done);
  }
  EXPECT_EQ(memory(0, content.size()), content);
}

TEST_P(AsyncReaderTest, AnEmptyBatchIsDone) {
  const AsyncReader::Ticket ticket = reader_->submit({}, ReadUrgency::needed);
  EXPECT_TRUE(reader_->done(ticket));
  EXPECT_TRUE(reader_->wait(ticket));
}

TEST_P(AsyncReaderTest, AFileCutShortAfterOpeningIsAnErrorThatNamesIt) {
  const auto f = file(random_bytes(3 << 20));
  for (const size_t length : {size_t{2} << 20, (size_t{2} << 20) + 100, size_t{0}}) {
    std::filesystem::resize_file(f->path(), length);
    const Status status = read({f.get(), 0, 3 << 20, memory_.data()});
    ASSERT_FALSE(status) << length;
    EXPECT_EQ(status.error().code, ErrorCode::io);
    EXPECT_THAT(status.error().message, HasSubstr(f->path().string()));
    EXPECT_THAT(status.error().message, HasSubstr("ends before"));
  }
}

TEST_P(AsyncReaderTest, WhatTheKernelRefusesIsAnErrorThatNamesTheFile) {
  const auto f = file("x");
  // Memory that is not mapped.
  const ReadRequest request{f.get(), 0, 1, reinterpret_cast<std::byte*>(uintptr_t{4096})};
  const Status status = read(request);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr(f->path().string() + ": reading at byte 0: Bad address"));
  EXPECT_TRUE(read({f.get(), 0, 1, memory_.data()}));  // the reader goes on
}

TEST_P(AsyncReaderTest, EndsWithReadsUnderWay) {
  const auto f = file(random_bytes(32 << 20));
  for (int i = 0; i < 3; ++i) {
    const ReadRequest request{f.get(), 0, 32 << 20, memory_.data()};
    (void)reader_->submit({&request, 1}, ReadUrgency::ahead);
  }
  reader_.reset();
}

std::string engine_name(const testing::TestParamInfo<std::pair<Engine, Mode>>& info) {
  return std::string(info.param.first == Engine::threads ? "threads" : "io_uring") +
         (info.param.second == Mode::direct ? "_direct" : "_buffered");
}

INSTANTIATE_TEST_SUITE_P(All, AsyncReaderTest,
                         testing::Values(std::pair{Engine::io_uring, Mode::direct},
                                         std::pair{Engine::io_uring, Mode::buffered},
                                         std::pair{Engine::threads, Mode::direct},
                                         std::pair{Engine::threads, Mode::buffered}),
                         engine_name);

TEST(AsyncReader, AutomaticTakesOneThatIsThere) {
  const auto reader = AsyncReader::create();
  ASSERT_TRUE(reader) << reader.error().message;
  const bool uring = AsyncReader::create(Engine::io_uring).has_value();
  EXPECT_EQ((*reader)->name(), uring ? "io_uring" : "threads");
}

TEST(AsyncReader, ARefusedThreadIsAnError) {
  for (const Engine engine : {Engine::threads, Engine::automatic}) {
    const auto reader = AsyncReader::create(engine, test::refuse_threads_after(0));
    ASSERT_FALSE(reader);
    EXPECT_EQ(reader.error().code, ErrorCode::io);
    EXPECT_THAT(reader.error().message, HasSubstr("cannot start thread 1 of 16: "));
  }
  // Those that have started are stopped.
  const auto reader = AsyncReader::create(Engine::threads, test::refuse_threads_after(5));
  ASSERT_FALSE(reader);
  EXPECT_THAT(reader.error().message, HasSubstr("cannot start thread 6 of 16: "));
}

// What the kernel answers instead of doing as it is told: from the `first` call on, `count` times.
struct Refusal {
  int error = 0;
  int first = 0;
  int count = 0;
};
constexpr int for_ever = 1 << 30;

class FailingRingTest : public testing::Test {
 protected:
  static constexpr size_t bytes = size_t{9} << 20;

  std::unique_ptr<AsyncReader> reader(const Refusal& submit, const Refusal& wait) {
    RingCalls calls = kernel_ring_calls();
    const auto failing = [](const Refusal& refusal, auto call) {
      return [=, calls = std::make_shared<std::atomic<int>>(0)](auto... arguments) {
        const int number = (*calls)++ - refusal.first;
        return number >= 0 && number < refusal.count ? -refusal.error : call(arguments...);
      };
    };
    calls.submit = failing(submit, calls.submit);
    // Like the kernel's, it gives what is there already.
    const auto refused = failing(wait, [](io_uring*) { return 0; });
    calls.wait_entry = [refused, real = calls.wait_entry](io_uring* ring, io_uring_cqe** entry) {
      const int result = refused(ring);
      if (result == 0) return real(ring, entry);
      return ::io_uring_cq_ready(ring) > 0 ? real(ring, entry) : result;
    };
    auto made = make_uring_reader(start_std_thread, calls);
    return made ? std::move(*made) : nullptr;
  }
  // Twice the same, in pieces, so that failures come before, between and after.
  std::vector<Status> read_twice(AsyncReader& reader) {
    std::vector<Status> out;
    for (int i = 0; i < 2; ++i) {
      std::memset(memory_.data(), 0, bytes);
      const ReadRequest request{file_.get(), 0, bytes, memory_.data()};
      out.push_back(reader.wait(reader.submit({&request, 1}, ReadUrgency::needed)));
      if (out.back()) {
        EXPECT_EQ(std::memcmp(memory_.data(), content_.data(), bytes), 0);
      }
    }
    return out;
  }

  TempDir dir_;
  std::string content_ = random_bytes(bytes);
  std::shared_ptr<const DirectFile> file_ =
      DirectFile::open(write_file(dir_ / "data", content_), Mode::direct).value();
  HugeBuffer memory_ = HugeBuffer::allocate(bytes).value();
};

TEST_F(FailingRingTest, WhatIsRefusedForAMomentIsTriedAgain) {
  for (const int error : {EINTR, EAGAIN, EBUSY})
    for (const int first : {0, 1, 3}) {
      const Refusal refusal{error, first, 5};
      for (const auto& r : {reader(refusal, {}), reader({}, refusal), reader(refusal, refusal)}) {
        if (r == nullptr) GTEST_SKIP() << "no io_uring";
        for (const Status& status : read_twice(*r)) EXPECT_TRUE(status) << status.error().message;
      }
    }
}

// The results come all the same, and are found.
TEST_F(FailingRingTest, AKernelThatNeverWaitsIsAskedNoMoreThanForResults) {
  const auto r = reader({}, {EBUSY, 0, for_ever});
  if (r == nullptr) GTEST_SKIP() << "no io_uring";
  for (const Status& status : read_twice(*r)) EXPECT_TRUE(status) << status.error().message;
}

TEST_F(FailingRingTest, AnErrorOfTheRingIsAnErrorOfTheReadsThatNamesTheFile) {
  for (const int first : {0, 1})
    for (const int error : {EIO, ENOMEM})
      for (const bool submit : {true, false}) {
        const Refusal refusal{error, first, 1};
        const auto r = submit ? reader(refusal, {}) : reader({}, refusal);
        if (r == nullptr) GTEST_SKIP() << "no io_uring";
        (void)read_twice(*r);
        const std::vector<Status> after = read_twice(*r);
        for (const Status& status : after) {
          if (status) continue;  // every result was there before it was waited for
          EXPECT_EQ(status.error().code, ErrorCode::io);
          EXPECT_THAT(status.error().message,
                      HasSubstr(fmt::format("{}: reading at byte 0: io_uring: {}", file_->path().string(),
                                            std::strerror(error))));
        }
        EXPECT_TRUE(!submit || !after[0]);
      }
}

TEST_F(FailingRingTest, ARingThatTakesNothingIsAnErrorInTheEnd) {
  const auto r = reader({EBUSY, 1, for_ever}, {});
  if (r == nullptr) GTEST_SKIP() << "no io_uring";
  const std::vector<Status> statuses = read_twice(*r);
  ASSERT_FALSE(statuses[1]);
  EXPECT_THAT(statuses[1].error().message, HasSubstr("io_uring: Device or resource busy"));
}

TEST_F(FailingRingTest, EndsWithReadsThatWereRefused) {
  const auto r = reader({EAGAIN, 0, 3}, {EIO, 0, 1});
  if (r == nullptr) GTEST_SKIP() << "no io_uring";
  const ReadRequest request{file_.get(), 0, bytes, memory_.data()};
  (void)r->submit({&request, 1}, ReadUrgency::ahead);
}

TEST(DirectFile, RefusesWhatIsNotAFile) {
  const TempDir dir;
  EXPECT_EQ(DirectFile::open(dir / "none").error().code, ErrorCode::not_found);
  EXPECT_THAT(DirectFile::open(dir.path()).error().message, HasSubstr("expected a regular file"));
}

TEST(HugeBuffer, IsAlignedZeroedAndMovable) {
  HugeBuffer a = HugeBuffer::allocate(5000000).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % HugeBuffer::alignment, 0u);
  EXPECT_EQ(a.bytes(), 6 << 20);
  EXPECT_EQ(a.data()[a.bytes() - 1], std::byte{0});
  HugeBuffer b = std::move(a);
  b.data()[0] = std::byte{1};
  EXPECT_EQ(a.data(), nullptr);
  b = HugeBuffer::allocate(0).value();
  EXPECT_EQ(b.data(), nullptr);
}

TEST(HugeBuffer, SaysWhenThereIsNone) {
  EXPECT_EQ(HugeBuffer::allocate(int64_t{1} << 60).error().code, ErrorCode::out_of_memory);
}

}  // namespace
}  // namespace fathom
