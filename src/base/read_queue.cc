#include "base/read_queue.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/check.h"

namespace fathom {
namespace {

// Large enough for full bandwidth, small enough that what is needed does not wait long behind what is not.
constexpr size_t piece_bytes = size_t{1} << 20;
// A read that has begun cannot be overtaken: so few at a time that a disk is busy, and needed ones wait
// little.
constexpr int max_ahead_under_way = 8;

Status ended_early(const ReadPiece& piece) {
  return fail(ErrorCode::io, "{}: the file ends before byte {}: was it cut short?",
              piece.request.file->path().string(), piece.request.offset + piece.request.bytes);
}

}  // namespace

AsyncReader::Ticket ReadQueue::add(std::span<const ReadRequest> requests, ReadUrgency urgency) {
  const std::lock_guard lock(mutex_);
  const AsyncReader::Ticket ticket = ++last_ticket_;
  Batch& batch = batches_[ticket];
  std::deque<ReadPiece>& queue = urgency == ReadUrgency::needed ? needed_ : ahead_;
  for (ReadRequest rest : requests) {
    FATHOM_CHECK_EQ(rest.offset % DirectFile::alignment, 0u);
    FATHOM_CHECK_EQ(reinterpret_cast<uintptr_t>(rest.to) % DirectFile::alignment, 0u);
    while (rest.bytes > 0) {
      ReadRequest piece = rest;
      piece.bytes = std::min(piece.bytes, piece_bytes);
      queue.push_back({piece, ticket, urgency});
      ++batch.pieces_left;
      rest.offset += piece.bytes;
      rest.to += piece.bytes;
      rest.bytes -= piece.bytes;
    }
  }
  added_.notify_all();
  return ticket;
}

void ReadQueue::hurry(AsyncReader::Ticket ticket) {
  const std::lock_guard lock(mutex_);
  const auto others = std::stable_partition(ahead_.begin(), ahead_.end(),
                                            [&](const ReadPiece& p) { return p.ticket != ticket; });
  needed_.insert(needed_.end(), others, ahead_.end());
  ahead_.erase(others, ahead_.end());
  added_.notify_all();
}

bool ReadQueue::done_locked(AsyncReader::Ticket ticket) const {
  const auto at = batches_.find(ticket);
  return at == batches_.end() || at->second.pieces_left == 0;
}

bool ReadQueue::done(AsyncReader::Ticket ticket) const {
  const std::lock_guard lock(mutex_);
  return done_locked(ticket);
}

Status ReadQueue::wait(AsyncReader::Ticket ticket) {
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return done_locked(ticket); });
  const auto at = batches_.find(ticket);
  FATHOM_CHECK(at != batches_.end());
  Status status = std::move(at->second.status);
  batches_.erase(at);
  return status;
}

void ReadQueue::wait_any(std::span<const AsyncReader::Ticket> tickets) {
  FATHOM_CHECK(!tickets.empty());
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] {
    return std::any_of(tickets.begin(), tickets.end(), [&](AsyncReader::Ticket t) { return done_locked(t); });
  });
}

std::optional<ReadPiece> ReadQueue::take_locked() {
  const bool ahead = needed_.empty();
  if (ahead && ahead_under_way_ >= max_ahead_under_way) return std::nullopt;
  std::deque<ReadPiece>& queue = ahead ? ahead_ : needed_;
  if (queue.empty()) return std::nullopt;
  ReadPiece piece = queue.front();
  queue.pop_front();
  piece.urgency =
      ahead ? ReadUrgency::ahead : ReadUrgency::needed;  // as it was taken: it may have been hurried
  ahead_under_way_ += ahead;
  return piece;
}

std::optional<ReadPiece> ReadQueue::take() {
  const std::lock_guard lock(mutex_);
  return take_locked();
}

std::optional<ReadPiece> ReadQueue::take_or_wait() {
  std::unique_lock lock(mutex_);
  std::optional<ReadPiece> piece;
  added_.wait(lock, [&] { return stopping_ || (piece = take_locked()).has_value(); });
  return stopping_ ? std::nullopt : piece;
}

void ReadQueue::finish(const ReadPiece& piece, Status status) {
  if (piece.request.file->mode() == DirectFile::Mode::buffered) {
    // The whole pages up to here; a piece's own beginning is no longer known, so a little more than itself.
    const auto end = static_cast<off_t>(piece.request.offset + piece.request.bytes);
    const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(piece_bytes));
    (void)::posix_fadvise(piece.request.file->descriptor(), begin, end - begin, POSIX_FADV_DONTNEED);
  }
  const std::lock_guard lock(mutex_);
  if (piece.urgency == ReadUrgency::ahead) {
    --ahead_under_way_;
    added_.notify_one();
  }
  Batch& batch = batches_.at(piece.ticket);
  if (!status && batch.status) batch.status = std::move(status);
  if (--batch.pieces_left == 0) finished_.notify_all();
}

void ReadQueue::stop() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  needed_.clear();
  ahead_.clear();
  added_.notify_all();
}

bool advance(ReadPiece& piece, int64_t result, Status& status) {
  ReadRequest& rest = piece.request;
  if (result == -EINTR || result == -EAGAIN) return false;
  if (result < 0) {
    status = fail(ErrorCode::io, "{}: reading at byte {}: {}", rest.file->path().string(), rest.offset,
                  std::strerror(static_cast<int>(-result)));
    return true;
  }
  const auto got = static_cast<size_t>(result);
  if (got >= rest.bytes) return true;
  // A direct read that ends off the grid has met the end of the file.
  if (got == 0 || got % DirectFile::alignment != 0) {
    status = ended_early(piece);
    return true;
  }
  rest.offset += got;
  rest.to += got;
  rest.bytes -= got;
  return false;
}

size_t call_bytes(const ReadPiece& piece) {
  constexpr size_t grid = DirectFile::alignment;
  return (piece.request.bytes + grid - 1) / grid * grid;
}

void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  (void)::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace fathom
