#include "base/uring_reader.h"

#include <liburing.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
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

// Whoever submits puts pieces into the ring; one thread waits for results and fills up what became free. It
// has nothing else to do, so that a long queue is worked off while the caller computes.
class UringReader final : public AsyncReader {
 public:
  static constexpr unsigned depth = 64;  // reads under way at once

  UringReader() : ring_(2 * depth) {
    for (unsigned i = 0; i < depth; ++i) free_.push_back(i);
  }
  int error() const { return ring_.error(); }
  void start() {
    thread_ = std::thread([this] { complete_all(); });
  }

  ~UringReader() override {
    if (!thread_.joinable()) return;
    queue_.stop();
    {
      const std::lock_guard lock(mutex_);
      io_uring_sqe* entry = ::io_uring_get_sqe(ring_.get());
      FATHOM_CHECK(entry != nullptr);  // twice as many entries as reads
      ::io_uring_prep_nop(entry);
      ::io_uring_sqe_set_data64(entry, wake_up);
      flush();
    }
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
  static constexpr uint64_t wake_up = ~uint64_t{0};

  void prepare(unsigned slot) {
    io_uring_sqe* entry = ::io_uring_get_sqe(ring_.get());
    FATHOM_CHECK(entry != nullptr);
    const ReadPiece& piece = pieces_[slot];
    ::io_uring_prep_read(entry, piece.request.file->descriptor(), piece.request.to,
                         static_cast<unsigned>(call_bytes(piece)), piece.request.offset);
    ::io_uring_sqe_set_data64(entry, slot);
  }

  // Hands prepared entries to the kernel. It may be short of memory for a moment; entries stay in the ring
  // then, and go with the next call.
  void flush() {
    for (;;) {
      const int result = ::io_uring_submit(ring_.get());
      if (result >= 0 && ::io_uring_sq_ready(ring_.get()) == 0) return;
      if (result < 0 && result != -EINTR && result != -EAGAIN && result != -EBUSY) FATHOM_CHECK_EQ(result, 0);
      std::this_thread::yield();
    }
  }

  void fill() {
    bool any = false;
    while (!free_.empty()) {
      const std::optional<ReadPiece> piece = queue_.take();
      if (!piece) break;
      const unsigned slot = free_.back();
      free_.pop_back();
      pieces_[slot] = *piece;
      prepare(slot);
      any = true;
    }
    if (any) flush();
  }

  void complete(unsigned slot, int result) {
    ReadPiece& piece = pieces_[slot];
    Status status;
    if (advance(piece, result, status)) {
      queue_.finish(piece, std::move(status));
      free_.push_back(slot);
    } else {
      prepare(slot);
      flush();
    }
  }

  void complete_all() {
    block_signals();
    for (bool woken = false; !woken || !idle();) {
      io_uring_cqe* entry = nullptr;
      const int waited = ::io_uring_wait_cqe(ring_.get(), &entry);
      if (waited == -EINTR || waited == -EAGAIN) continue;
      FATHOM_CHECK_EQ(waited, 0);
      const uint64_t data = ::io_uring_cqe_get_data64(entry);
      const int result = entry->res;
      ::io_uring_cqe_seen(ring_.get(), entry);
      const std::lock_guard lock(mutex_);
      if (data == wake_up) {
        woken = true;
        continue;
      }
      complete(static_cast<unsigned>(data), result);
      fill();
    }
  }

  bool idle() {
    const std::lock_guard lock(mutex_);
    return free_.size() == depth;
  }

  ReadQueue queue_;
  std::mutex mutex_;  // guards the ring's submitting side, pieces_ and free_
  Ring ring_;
  std::array<ReadPiece, depth> pieces_;
  std::vector<unsigned> free_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<AsyncReader>> make_uring_reader() {
  auto reader = std::make_unique<UringReader>();
  if (reader->error() != 0)
    return fail(ErrorCode::unsupported, "io_uring is not available: {}", std::strerror(reader->error()));
  reader->start();
  return reader;
}

}  // namespace fathom
