// Batches of reads from files into memory, done while the caller computes.
//
// One interface over io_uring and, where the kernel or a sandbox refuses that, a pool of threads that read.
// All calls may come from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/direct_file.h"
#include "base/result.h"
#include "base/thread_start.h"

namespace fathom {

/// `bytes` of `file` from `offset` on to `to`. Offset and `to` are multiples of DirectFile::alignment, and
/// there is room at `to` for `bytes` rounded up to such a multiple; what stands behind `bytes` afterwards is
/// unspecified. File and memory must stay until the read is done.
struct ReadRequest {
  const DirectFile* file = nullptr;
  uint64_t offset = 0;
  size_t bytes = 0;
  std::byte* to = nullptr;
};

/// Reads that are not needed yet wait for those that are.
enum class ReadUrgency { needed, ahead };

class AsyncReader {
 public:
  enum class Engine { automatic, io_uring, threads };
  /// A batch: never 0, never given twice.
  using Ticket = uint64_t;

  /// `automatic` takes io_uring where there is one. Errors: unsupported (io_uring was asked for and is not
  /// there; the message says why), io (a thread that the system refuses).
  static Result<std::unique_ptr<AsyncReader>> create(Engine engine = Engine::automatic,
                                                     const ThreadStarter& starter = start_std_thread);

  /// Waits for the reads that have begun; the others are dropped.
  virtual ~AsyncReader() = default;

  /// "io_uring" or "threads".
  virtual std::string_view name() const = 0;

  /// Starts reading and returns at once. Large requests are read in pieces, several at a time.
  virtual Ticket submit(std::span<const ReadRequest> requests, ReadUrgency urgency) = 0;

  /// Makes a batch read `ahead` as urgent as any other.
  virtual void hurry(Ticket ticket) = 0;

  /// Whether every read of the batch is done, well or not; true after wait().
  virtual bool done(Ticket ticket) const = 0;

  /// Waits until a batch is done and forgets it. Errors: io, naming the file: the first thing that went wrong
  /// in the batch, be it the device or a file that ends before the range does. Once for each batch.
  virtual Status wait(Ticket ticket) = 0;

  /// Waits until at least one of some batches (at least one) is done.
  virtual void wait_any(std::span<const Ticket> tickets) = 0;
};

}  // namespace fathom
