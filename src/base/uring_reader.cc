#include "base/uring_reader.h"

#include <liburing.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/read_queue.h"

namespace fathom {
namespace {

// The kernel's side of the ring, set up and torn down.
class Ring {
 public:
  explicit Ring(unsigned entries) : error_(-::io_uring_queue_init(entries, &ring_, 0)) {}
  ~Ring() {
    if (error_ == 0) ::io_uring_queue_exit(&ring_);
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  int error() const { return error_; }
  io_uring* get() { return &ring_; }

 private:
  io_uring ring_{};
  int error_;
};

// What a call into the kernel may say when it is only short of something for a moment.
bool is_refusal(int result) { return result == -EINTR || result == -EAGAIN || result == -EBUSY; }

// Whoever submits puts pieces into the ring; one thread waits for results and fills up what became free. It
// has nothing else to do, so that a long queue is worked off while the caller computes.
//
// What the kernel refuses to take stays in the ring, and the thread offers it again after the next result or
// a moment later. When the ring fails for good, nothing is offered any more: the reads that the kernel has
// not taken, and all to come, fail. Those that it has write to their memory, so their results are waited for.
class UringReader final : public AsyncReader {
 public:
  static constexpr unsigned depth = 64;  // reads under way at once

  explicit UringReader(RingCalls calls) : calls_(std::move(calls)), ring_(2 * depth) {
    for (unsigned i = 0; i < depth; ++i) free_.push_back(i);
  }
  int error() const { return ring_.error(); }
  Status start(const ThreadStarter& starter) {
    FATHOM_ASSIGN(thread_, start_thread(starter, 1, 1, [this] { complete_all(); }));
    return {};
  }

  ~UringReader() override {
    if (!thread_.joinable()) return;
    queue_.stop();
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    begun_.notify_one();
    thread_.join();
  }

  std::string_view name() const override { return "io_uring"; }
  Ticket submit(std::span<const ReadRequest> requests, ReadUrgency urgency) override {
    const Ticket ticket = queue_.add(requests, urgency);
    const std::lock_guard lock(mutex_);
    fill();
    return ticket;
  }
  void hurry(Ticket ticket) override {
    queue_.hurry(ticket);
    const std::lock_guard lock(mutex_);
    fill();
  }
  bool done(Ticket ticket) const override { return queue_.done(ticket); }
  Status wait(Ticket ticket) override { return queue_.wait(ticket); }
  void wait_any(std::span<const Ticket> tickets) override { queue_.wait_any(tickets); }

 private:
  // A kernel that takes nothing while it has nothing to finish will not recover: a few seconds.
  static constexpr int max_refusals = 2000;
  static constexpr std::chrono::milliseconds pause{1};

  size_t under_way() const { return depth - free_.size(); }
  size_t in_kernel() const { return under_way() - offered_.size(); }

  void prepare(unsigned slot) {
    io_uring_sqe* entry = ::io_uring_get_sqe(ring_.get());
    FATHOM_CHECK(entry != nullptr);  // twice as many entries as reads
    const ReadPiece& piece = pieces_[slot];
    ::io_uring_prep_read(entry, piece.request.file->descriptor(), piece.request.to,
                         static_cast<unsigned>(call_bytes(piece)), piece.request.offset);
    ::io_uring_sqe_set_data64(entry, slot);
    offered_.push_back(slot);
  }

  // Offers what is prepared to the kernel, which takes it in order, and all or a part.
  void flush() {
    while (failure_ == 0 && !offered_.empty()) {
      const int result = calls_.submit(ring_.get());
      const size_t left = ::io_uring_sq_ready(ring_.get());
      const bool taken = left < offered_.size();
      while (offered_.size() > left) offered_.pop_front();
      if (taken || in_kernel() > 0) refusals_ = 0;
      if (taken && result >= 0) continue;
      if (result < 0 && !is_refusal(result)) return break_off(-result);
      if (++refusals_ > max_refusals) return break_off(result < 0 ? -result : EAGAIN);
      return;
    }
  }

  void break_off(int error) {
    failure_ = error;
    for (const unsigned slot : offered_) {
      fail_piece(pieces_[slot]);
      free_.push_back(slot);
    }
    offered_.clear();
    fill();
  }

  void fail_piece(const ReadPiece& piece) {
    queue_.finish(piece,
                  fail(ErrorCode::io, "{}: reading at byte {}: io_uring: {}",
                       piece.request.file->path().string(), piece.request.offset, std::strerror(failure_)));
  }

  void fill() {
    const bool idle = under_way() == 0;
    while (failure_ != 0 || !free_.empty()) {
      const std::optional<ReadPiece> piece = queue_.take();
      if (!piece) break;
      if (failure_ != 0) {
        fail_piece(*piece);
        continue;
      }
      const unsigned slot = free_.back();
      free_.pop_back();
      pieces_[slot] = *piece;
      prepare(slot);
    }
    flush();
    if (idle && under_way() > 0) begun_.notify_one();
  }

  void complete(unsigned slot, int result) {
    ReadPiece& piece = pieces_[slot];
    Status status;
    if (advance(piece, result, status)) {
      queue_.finish(piece, std::move(status));
    } else if (failure_ != 0) {
      fail_piece(piece);
    } else {
      return prepare(slot);
    }
    free_.push_back(slot);
  }

  void complete_all() {
    block_signals();
    std::unique_lock lock(mutex_);
    for (;;) {
      begun_.wait(lock, [&] { return stopping_ || under_way() > 0; });
      if (under_way() == 0) return;
      const bool any = in_kernel() > 0;
      lock.unlock();
      io_uring_cqe* entry = nullptr;
      // Looks for a result that is there before it asks the kernel, so that none is lost when that fails.
      const int waited = any ? calls_.wait_entry(ring_.get(), &entry) : -EAGAIN;
      if (waited != 0) std::this_thread::sleep_for(pause);
      lock.lock();
      if (waited == 0) {
        const auto slot = static_cast<unsigned>(::io_uring_cqe_get_data64(entry));
        const int result = entry->res;
        ::io_uring_cqe_seen(ring_.get(), entry);
        complete(slot, result);
      } else if (!is_refusal(waited) && failure_ == 0) {
        break_off(-waited);
      }
      fill();
    }
  }

  const RingCalls calls_;
  ReadQueue queue_;
  std::mutex mutex_;  // guards the ring's submitting side and all that follows
  Ring ring_;
  std::array<ReadPiece, depth> pieces_;
  std::vector<unsigned> free_;
  std::deque<unsigned> offered_;  // prepared, not taken by the kernel yet
  int refusals_ = 0;              // in a row, with nothing in the kernel
  int failure_ = 0;               // the error that the ring failed with for good
  bool stopping_ = false;
  std::condition_variable begun_;  // reads are under way, or none will be
  std::thread thread_;
};

}  // namespace

RingCalls kernel_ring_calls() {
  return {[](io_uring* ring) { return ::io_uring_submit(ring); },
          [](io_uring* ring, io_uring_cqe** entry) { return ::io_uring_wait_cqe(ring, entry); }};
}

Result<std::unique_ptr<AsyncReader>> make_uring_reader(const ThreadStarter& starter, RingCalls calls) {
  auto reader = std::make_unique<UringReader>(std::move(calls));
  if (reader->error() != 0)
    return fail(ErrorCode::unsupported, "io_uring is not available: {}", std::strerror(reader->error()));
  FATHOM_TRY(reader->start(starter));
  return reader;
}

}  // namespace fathom
