#include "base/async_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "base/huge_buffer.h"
#include "tests/support/checkpoint_builder.h"

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
