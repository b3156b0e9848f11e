#include "sampling/random_stream.h"

#include <cstddef>

namespace fathom {
namespace {

// Constants of the published algorithm: two multipliers, and the key's increments (golden ratio, sqrt(3)-1).
constexpr uint32_t multiplier_0 = 0xD2511F53;
constexpr uint32_t multiplier_1 = 0xCD9E8D57;
constexpr uint32_t weyl_0 = 0x9E3779B9;
constexpr uint32_t weyl_1 = 0xBB67AE85;
constexpr int rounds = 10;

constexpr uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
constexpr uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

}  // namespace

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < rounds; ++round) {
    const uint64_t product_0 = uint64_t{multiplier_0} * counter[0];
    const uint64_t product_1 = uint64_t{multiplier_1} * counter[2];
    counter = {high(product_1) ^ counter[1] ^ key[0], low(product_1), high(product_0) ^ counter[3] ^ key[1],
               low(product_0)};
    key[0] += weyl_0;
    key[1] += weyl_1;
  }
  return counter;
}

double RandomStream::uniform(uint64_t position, uint32_t draw) const {
  // One block holds two draws of 64 bits.
  const auto block =
      philox4x32({low(position), high(position), draw / 2, stream_}, {low(seed_), high(seed_)});
  const size_t lane = draw % 2 * 2;
  const uint64_t bits = uint64_t{block[lane + 1]} << 32 | block[lane];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace fathom
