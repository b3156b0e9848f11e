#include "bench/limits.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/cancel.h"
#include "base/check.h"
#include "bench/random_fill.h"
#include "bench/spare_memory.h"
#include "bench/team.h"

namespace fathom::bench {
namespace {

constexpr int64_t unit = 4096;                          // what read and multiply_streamed take multiples of
constexpr int64_t max_piece = int64_t{256} << 20;       // read in one sample
constexpr int64_t slice_bytes = int64_t{64} << 20;      // filled between two looks for an interrupt
constexpr int64_t streamed_bytes = int64_t{384} << 10;  // fits second-level caches, not first-level ones
constexpr double target_seconds = 0.01;                 // of a sample of products

int64_t rounded(int64_t bytes) { return bytes / unit * unit; }

class Limits {
 public:
  Limits(QuietGate& gate, const LimitOptions& options) : gate_(gate), options_(options) {}

  /// Random bytes, a slice at a time: a whole buffer takes too long for an interrupt to wait.
  Status fill(const HugeBuffer& memory) {
    for (int64_t at = 0; at < memory.bytes(); at += slice_bytes) {
      FATHOM_TRY(check_cancelled(options_.effort.cancelled));
      fill_random(memory.data() + at, std::min(slice_bytes, memory.bytes() - at), DType::u8,
                  static_cast<uint64_t>(at / slice_bytes) + 1, options_.threads);
    }
    return {};
  }

  Result<Rate> read(const Kernels& kernels, const HugeBuffer& memory, int threads) {
    const int64_t piece = rounded(std::min(max_piece, memory.bytes()) / threads);  // of one thread
    const int64_t step = piece * threads;
    int64_t at = 0;
    FATHOM_ASSIGN(const Summary summary, measure(gate_, options_.effort, [&]() -> Result<double> {
                    if (at + step > memory.bytes()) at = 0;
                    const double seconds = run_together(threads, [&](int thread) {
                      consumed_ += kernels.read(memory.data() + at + thread * piece, piece);
                    });
                    at += step;
                    return seconds;
                  }));
    return rate_of(summary, static_cast<double>(step));
  }

  /// `multiply` does some number of rounds on one thread.
  Result<Rate> peak(int threads, const std::function<double(int64_t)>& multiply) {
    int64_t rounds = 1;
    double flop = 0;
    for (double seconds = 0; seconds < target_seconds / 4; rounds *= 2) {
      const double begin = seconds_now();
      flop = multiply(rounds);
      seconds = seconds_now() - begin;
    }
    flop *= 2;  // the loop has doubled the rounds once more
    FATHOM_ASSIGN(const Summary summary, measure(gate_, options_.effort, [&]() -> Result<double> {
                    return run_together(threads, [&](int) { multiply(rounds); });
                  }));
    return rate_of(summary, flop * threads);
  }

  Result<MatrixPeak> matrix(const Kernels& kernels) {
    MatrixPeak out{.name = kernels.name, .one_thread = {}, .registers = {}, .streamed = {}};
    FATHOM_ASSIGN(out.one_thread, peak(1, kernels.multiply_registers));
    FATHOM_ASSIGN(out.registers, peak(options_.threads, kernels.multiply_registers));
    FATHOM_ASSIGN(const HugeBuffer memory, take_spare_memory(streamed_bytes * max_copies));
    fill_random(memory.data(), memory.bytes(), DType::bf16, 1, options_.threads);
    // Each thread its own operands: sharing them would let one core's cache feed the others.
    std::atomic<int> next{0};
    FATHOM_ASSIGN(out.streamed, peak(options_.threads, [&](int64_t rounds) {
                    const int copy = next++ % max_copies;
                    return kernels.multiply_streamed(memory.data() + copy * streamed_bytes, streamed_bytes,
                                                     rounds);
                  }));
    return out;
  }

 private:
  static constexpr int max_copies = 64;

  QuietGate& gate_;
  const LimitOptions& options_;
  std::atomic<uint64_t> consumed_{0};
};

}  // namespace

double MachineLimits::peak() const {
  double best = 0;
  for (const MatrixPeak& peak : peaks) best = std::max(best, peak.registers.best);
  return best;
}

std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> all;
#if defined(__x86_64__)
  for (const Kernels* kernels : {&amx_bf16_kernels(), &avx512_bf16_kernels(), &avx2_kernels()})
    if (kernels->supported()) all.push_back(kernels);
#endif
  all.push_back(&portable_kernels());
  return all;
}

Result<MachineLimits> measure_limits(QuietGate& gate, const LimitOptions& options,
                                     const std::function<void(std::string_view)>& step) {
  FATHOM_CHECK_LE(1, options.threads);
  MachineLimits out;
  out.threads = options.threads;
  const std::vector<const Kernels*> all = available_kernels();
  const Kernels& reader =
      **std::find_if(all.begin(), all.end(), [](const Kernels* k) { return k->read != nullptr; });
  Limits limits(gate, options);
  step("memory");
  {
    // Each thread reads a multiple of the unit at once.
    const int64_t bytes = std::max(rounded(options.buffer_bytes), unit * options.threads);
    FATHOM_ASSIGN(const HugeBuffer memory, take_spare_memory(bytes));
    FATHOM_TRY(limits.fill(memory));
    FATHOM_ASSIGN(out.read_one, limits.read(reader, memory, 1));
    FATHOM_ASSIGN(out.read_all, limits.read(reader, memory, options.threads));
  }
  for (const Kernels* kernels : all) {
    step(kernels->name);
    FATHOM_ASSIGN(MatrixPeak peak, limits.matrix(*kernels));
    out.peaks.push_back(std::move(peak));
  }
  return out;
}

}  // namespace fathom::bench
