#include "bench/limit_probe.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "bench/measure_operations.h"
#include "bench/random_fill.h"
#include "bench/spare_memory.h"
#include "bench/team.h"

namespace fathom::bench {
namespace {

constexpr int64_t piece_bytes = int64_t{4} << 20;      // read by one thread at a time
constexpr int64_t pieces_of_a_thread = 32;             // in one probe: about 4 ms
constexpr int64_t num_parts = 2;                       // read in turn: no cache holds them
constexpr int64_t operand_bytes = int64_t{384} << 10;  // of a thread: not held by first-level caches
constexpr double target_seconds = 0.004;               // of a probe of products
constexpr int64_t shares_of_a_thread = 8;

}  // namespace

Result<LimitProbe> LimitProbe::make(const MachineLimits& limits, int64_t most_bytes) {
  LimitProbe out;
  out.limits_ = limits;
  for (const Kernels* kernels : available_kernels()) {
    if (out.reader_ == nullptr && kernels->read != nullptr) out.reader_ = kernels;
    for (const MatrixPeak& peak : limits.peaks)
      if (peak.name == kernels->name && peak.streamed.best > out.fastest_) {
        out.fastest_ = peak.streamed.best;
        out.multiplier_ = kernels;
      }
  }
  FATHOM_CHECK(out.reader_ != nullptr && out.multiplier_ != nullptr);
  out.pool_ = std::make_unique<ThreadPool>(limits.threads);
  out.pieces_ =
      std::clamp<int64_t>(most_bytes / num_parts / piece_bytes, 1, limits.threads * pieces_of_a_thread);
  FATHOM_ASSIGN(out.memory_, take_spare_memory(out.pieces_ * piece_bytes * num_parts));
  fill_random(out.memory_.data(), out.memory_.bytes(), DType::u8, 1, limits.threads);
  FATHOM_ASSIGN(out.operands_, take_spare_memory(limits.threads * operand_bytes));
  fill_random(out.operands_.data(), out.operands_.bytes(), DType::bf16, 1, limits.threads);
  return out;
}

double LimitProbe::bandwidth() {
  const std::byte* part = memory_.data() + at_ * pieces_ * piece_bytes;
  at_ = (at_ + 1) % num_parts;
  std::atomic<uint64_t> consumed{0};
  const double begin = seconds_now();
  pool_->parallel_for(pieces_, 1, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) consumed += reader_->read(part + i * piece_bytes, piece_bytes);
  });
  return static_cast<double>(pieces_ * piece_bytes) / (seconds_now() - begin);
}

double LimitProbe::products() {
  const auto multiply = [&](int worker, int64_t rounds) {
    return multiplier_->multiply_streamed(operands_.data() + worker * operand_bytes, operand_bytes, rounds);
  };
  const double flop = multiply(0, 1);
  const int64_t shares = limits_.threads * shares_of_a_thread;
  const auto rounds =
      static_cast<int64_t>(std::max(1.0, fastest_ * target_seconds / flop / static_cast<double>(shares)));
  const double begin = seconds_now();
  pool_->parallel_for_workers(shares, 1, [&](int64_t first, int64_t end, int worker) {
    for (int64_t i = first; i < end; ++i) multiply(worker, rounds);
  });
  return flop * static_cast<double>(rounds * shares) / (seconds_now() - begin);
}

double LimitProbe::seconds_for(const Work& work) {
  return bound_by_reading(work, limits_) ? work.bytes / bandwidth() : work.flop / products();
}

}  // namespace fathom::bench
