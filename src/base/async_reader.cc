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

  /// Errors: io (a thread that the system refuses).
  Status start(const ThreadStarter& starter) {
    for (int i = 1; i <= num_threads; ++i) {
      FATHOM_ASSIGN(std::thread thread, start_thread(starter, i, num_threads, [this] { read_all(); }));
      threads_.push_back(std::move(thread));
    }
    return {};
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

Result<std::unique_ptr<AsyncReader>> AsyncReader::create(Engine engine, const ThreadStarter& starter) {
  if (engine != Engine::threads) {
    auto reader = make_uring_reader(starter);
    if (reader || engine == Engine::io_uring) return reader;
  }
  auto reader = std::make_unique<ThreadReader>();
  FATHOM_TRY(reader->start(starter));
  return reader;
}

}  // namespace fathom
