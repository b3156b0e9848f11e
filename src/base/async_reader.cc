// The pool of threads, and the choice between it and io_uring.
#include "base/async_reader.h"

#include <unistd.h>

#include <cerrno>
#include <thread>
#include <vector>

#include "base/read_queue.h"
#include "base/uring_reader.h"

namespace fathom {
namespace {

class ThreadReader final : public AsyncReader {
 public:
  // As many reads at a time as a disk needs to be busy; the threads sleep in the kernel.
  static constexpr int num_threads = 16;

  ThreadReader() {
    for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { read_all(); });
  }
  ~ThreadReader() override {
    queue_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  std::string_view name() const override { return "threads"; }
  Ticket submit(std::span<const ReadRequest> requests, ReadUrgency urgency) override {
    return queue_.add(requests, urgency);
  }
  void hurry(Ticket ticket) override { queue_.hurry(ticket); }
  bool done(Ticket ticket) const override { return queue_.done(ticket); }
  Status wait(Ticket ticket) override { return queue_.wait(ticket); }
  void wait_any(std::span<const Ticket> tickets) override { queue_.wait_any(tickets); }

 private:
  void read_all() {
    block_signals();
    while (std::optional<ReadPiece> piece = queue_.take_or_wait()) {
      Status status;
      int64_t result;
      do {
        const ReadRequest& r = piece->request;
        result = ::pread(r.file->descriptor(), r.to, call_bytes(*piece), static_cast<off_t>(r.offset));
        if (result < 0) result = -errno;
      } while (!advance(*piece, result, status));
      queue_.finish(*piece, std::move(status));
    }
  }

  ReadQueue queue_;
  std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<AsyncReader>> AsyncReader::create(Engine engine) {
  if (engine != Engine::threads) {
    auto reader = make_uring_reader();
    if (reader || engine == Engine::io_uring) return reader;
  }
  return std::make_unique<ThreadReader>();
}

}  // namespace fathom
