#include "bench/limit_probe.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"
#include "bench/measure_operations.h"
#include "bench/random_fill.h"
#include "bench/team.h"

namespace fathom::bench {
namespace {

constexpr int64_t thread_piece = int64_t{64} << 20;    // read by a thread in one probe: about 2 ms
constexpr int64_t num_pieces = 4;                      // read in turn: no cache holds them
constexpr int64_t operand_bytes = int64_t{384} << 10;  // of a thread: not held by first-level caches
constexpr double target_seconds = 0.002;               // of a probe of products

}  // namespace

Result<LimitProbe> LimitProbe::make(const MachineLimits& limits) {
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
  FATHOM_ASSIGN(out.memory_, HugeMemory::allocate(limits.threads * thread_piece * num_pieces));
  fill_random(out.memory_.data(), out.memory_.bytes(), DType::u8, 1, limits.threads);
  FATHOM_ASSIGN(out.operands_, HugeMemory::allocate(limits.threads * operand_bytes));
  fill_random(out.operands_.data(), out.operands_.bytes(), DType::bf16, 1, limits.threads);
  return out;
}

double LimitProbe::bandwidth() {
  const std::byte* piece = memory_.data() + at_ * limits_.threads * thread_piece;
  at_ = (at_ + 1) % num_pieces;
  std::atomic<uint64_t> consumed{0};
  const double seconds = run_together(
      limits_.threads, [&](int t) { consumed += reader_->read(piece + t * thread_piece, thread_piece); });
  return static_cast<double>(limits_.threads * thread_piece) / seconds;
}

double LimitProbe::products() {
  const auto multiply = [&](int thread, int64_t rounds) {
    return multiplier_->multiply_streamed(operands_.data() + thread * operand_bytes, operand_bytes, rounds);
  };
  const double flop = multiply(0, 1);  // brings them near, too
  const double of_a_thread = fastest_ / limits_.threads;
  const auto rounds = static_cast<int64_t>(std::max(1.0, of_a_thread * target_seconds / flop));
  const double seconds = run_together(limits_.threads, [&](int t) { multiply(t, rounds); });
  return flop * static_cast<double>(rounds) * limits_.threads / seconds;
}

double LimitProbe::seconds_for(const Work& work) {
  return bound_by_reading(work, limits_) ? work.bytes / bandwidth() : work.flop / products();
}

}  // namespace fathom::bench
