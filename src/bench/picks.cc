#include "bench/picks.h"

#include <random>

#include "base/check.h"

namespace fathom::bench {

std::vector<int32_t> random_picks(int64_t rows, int64_t k, int64_t count) {
  FATHOM_CHECK_LE(k, count);
  std::vector<int32_t> out;
  out.reserve(static_cast<size_t>(rows * k));
  std::mt19937_64 random(1);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < k; ++i) {
      // One from each of k equal parts: different, ascending, and spread over all.
      const int64_t begin = i * count / k;
      const int64_t end = (i + 1) * count / k;
      out.push_back(static_cast<int32_t>(std::uniform_int_distribution<int64_t>(begin, end - 1)(random)));
    }
  return out;
}

}  // namespace fathom::bench
