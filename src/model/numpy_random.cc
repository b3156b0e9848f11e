#include "model/numpy_random.h"

#include <array>

#include "base/check.h"

namespace fathom {
namespace {

// SeedSequence: spreads the seed's words over a pool of four, then reads any number of words from it.
class SeedSequence {
 public:
  explicit SeedSequence(uint64_t seed) {
    const std::array<uint32_t, 4> words{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), 0, 0};
    uint32_t constant = 0x43b0d7e5;
    const auto scramble = [&constant](uint32_t value) {
      value ^= constant;
      constant *= 0x931e8875;
      value *= constant;
      return value ^ (value >> 16);
    };
    for (size_t i = 0; i < pool_.size(); ++i) pool_[i] = scramble(words[i]);
    for (size_t from = 0; from < pool_.size(); ++from)
      for (size_t to = 0; to < pool_.size(); ++to)
        if (from != to) {
          const uint32_t mixed = pool_[to] * 0xca01f9dd - scramble(pool_[from]) * 0x4973f715;
          pool_[to] = mixed ^ (mixed >> 16);
        }
  }

  std::array<uint64_t, 4> generate() const {
    std::array<uint32_t, 8> words{};
    uint32_t constant = 0x8b51f9dd;
    for (size_t i = 0; i < words.size(); ++i) {
      uint32_t value = pool_[i % pool_.size()] ^ constant;
      constant *= 0x58f38ded;
      value *= constant;
      words[i] = value ^ (value >> 16);
    }
    std::array<uint64_t, 4> result{};
    for (size_t i = 0; i < result.size(); ++i) result[i] = words[2 * i] | uint64_t{words[2 * i + 1]} << 32;
    return result;
  }

 private:
  std::array<uint32_t, 4> pool_{};
};

}  // namespace

NumpyRandom::NumpyRandom(uint64_t seed) {
  const std::array<uint64_t, 4> words = SeedSequence(seed).generate();
  const auto wide = [](uint64_t high, uint64_t low) { return Wide{high} << 64 | low; };
  increment_ = wide(words[2], words[3]) << 1 | 1;
  step();
  state_ += wide(words[0], words[1]);
  step();
}

void NumpyRandom::step() {
  constexpr Wide multiplier = Wide{2549297995355413924u} << 64 | 4865540595714422341u;
  state_ = state_ * multiplier + increment_;
}

uint64_t NumpyRandom::next() {
  step();
  const uint64_t folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
  const auto rotation = static_cast<unsigned>(state_ >> 122);
  return folded >> rotation | folded << ((64 - rotation) & 63);
}

uint64_t NumpyRandom::below(uint64_t bound) {
  if (bound == 1) return 0;
  FATHOM_CHECK_LT(uint64_t{1} << 32, bound);
  // Multiply and keep the high half; reject where the low half would favour some results.
  const uint64_t threshold = (0 - bound) % bound;
  Wide product = Wide{next()} * bound;
  while (static_cast<uint64_t>(product) < threshold) product = Wide{next()} * bound;
  return static_cast<uint64_t>(product >> 64);
}

}  // namespace fathom
