// The part of numpy's random generator that the engram multipliers are defined by (spec 3): default_rng, a
// PCG64 (XSL-RR 128/64) seeded through SeedSequence, and bounded integers by its 64-bit rejection method.
#pragma once

#include <cstdint>

namespace fathom {

class NumpyRandom {
 public:
  /// numpy.random.default_rng(seed).
  explicit NumpyRandom(uint64_t seed);

  /// The next raw 64 bits.
  uint64_t next();

  /// One value of integers(0, bound, dtype=int64), for 2^32 < bound <= 2^63 (a smaller range is drawn from 32
  /// bits by numpy, which is not implemented; bound 1 gives 0 and draws nothing).
  uint64_t below(uint64_t bound);

 private:
  __extension__ typedef unsigned __int128 Wide;
  void step();

  Wide state_ = 0;
  Wide increment_ = 0;
};

}  // namespace fathom
