// Random numbers that are a function of where they are used, not of what was drawn before.
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a
// counter-based generator. Nothing advances, so a draw does not depend on batching, on other requests, on
// retries or on drafts that were thrown away.
#pragma once

#include <array>
#include <cstdint>

namespace fathom {

/// One block of Philox4x32 with 10 rounds: 128 random bits for a 128-bit counter under a 64-bit key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// The draws of one request. `stream` separates several answers to one request that share a seed.
class RandomStream {
 public:
  explicit RandomStream(uint64_t seed, uint32_t stream = 0) : seed_(seed), stream_(stream) {}

  /// A number in [0, 1), a multiple of 2^-53, fixed by (seed, stream, position, draw) alone. `position`
  /// counts output tokens from 0; `draw` tells the numbers used at one position apart.
  double uniform(uint64_t position, uint32_t draw = 0) const;

 private:
  uint64_t seed_;
  uint32_t stream_;
};

}  // namespace fathom
