// Between those who ask for reads and the engine that does them: pieces to read, batches to wait for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/async_reader.h"

namespace fathom {

/// A part of a request that is read by one call at a time.
struct ReadPiece {
  ReadRequest request;  // what is left of it
  AsyncReader::Ticket ticket = 0;
  ReadUrgency urgency = ReadUrgency::needed;
};

class ReadQueue {
 public:
  AsyncReader::Ticket add(std::span<const ReadRequest> requests, ReadUrgency urgency);
  void hurry(AsyncReader::Ticket ticket);
  bool done(AsyncReader::Ticket ticket) const;
  Status wait(AsyncReader::Ticket ticket);
  void wait_any(std::span<const AsyncReader::Ticket> tickets);

  /// The next piece, those needed first; nothing when there is none.
  std::optional<ReadPiece> take();
  /// The same, waiting for one; nothing after stop().
  std::optional<ReadPiece> take_or_wait();
  /// The end of a piece, good or bad.
  void finish(const ReadPiece& piece, Status status);
  /// Drops what has not begun and ends take_or_wait.
  void stop();

 private:
  struct Batch {
    int64_t pieces_left = 0;
    Status status;
  };
  std::optional<ReadPiece> take_locked();
  bool done_locked(AsyncReader::Ticket ticket) const;

  mutable std::mutex mutex_;
  std::condition_variable added_, finished_;
  std::deque<ReadPiece> needed_, ahead_;
  std::unordered_map<AsyncReader::Ticket, Batch> batches_;
  AsyncReader::Ticket last_ticket_ = 0;
  int ahead_under_way_ = 0;  // pieces
  bool stopping_ = false;
};

/// What became of one read call: `result` is its return value, or minus errno. Advances `piece`; true when it
/// is finished, and `status` says how. False: the rest has to be read.
bool advance(ReadPiece& piece, int64_t result, Status& status);

/// The bytes to ask the kernel for.
size_t call_bytes(const ReadPiece& piece);

/// Keeps signals for the other threads: an interrupted read would only have to begin again.
void block_signals();

}  // namespace fathom
