#include "sampling/random_stream.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace fathom {
namespace {

// The known-answer vectors published with the algorithm (Random123, kat_vectors, philox4x32 10).
TEST(Philox, MatchesPublishedVectors) {
  using Block = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, MapsBlocksToDraws) {
  const uint64_t seed = 0x0123456789abcdefu, position = 0xfedcba9876543210u;
  const RandomStream stream(seed, 7);
  const auto block = philox4x32({0x76543210u, 0xfedcba98u, 2, 7}, {0x89abcdefu, 0x01234567u});
  const auto unit = [](uint64_t bits) { return static_cast<double>(bits >> 11) / 9007199254740992.0; };
  EXPECT_EQ(stream.uniform(position, 4), unit(uint64_t{block[1]} << 32 | block[0]));
  EXPECT_EQ(stream.uniform(position, 5), unit(uint64_t{block[3]} << 32 | block[2]));
}

TEST(RandomStream, DependsOnEveryCoordinateAndNothingElse) {
  std::set<double> seen;
  for (const uint64_t seed : {0ull, 1ull, 1ull << 32})
    for (const uint32_t stream : {0u, 1u})
      for (const uint64_t position : {0ull, 1ull, 1ull << 32})
        for (const uint32_t draw : {0u, 1u, 2u}) {
          const double u = RandomStream(seed, stream).uniform(position, draw);
          EXPECT_EQ(u, RandomStream(seed, stream).uniform(position, draw));
          EXPECT_GE(u, 0.0);
          EXPECT_LT(u, 1.0);
          seen.insert(u);
        }
  EXPECT_EQ(seen.size(), 3u * 2 * 3 * 3);
}

TEST(RandomStream, IsUniform) {
  constexpr int cells = 64, draws = 64000;
  const RandomStream stream(12345);
  std::vector<int> counts(cells);
  for (int i = 0; i < draws; ++i)
    ++counts[static_cast<size_t>(stream.uniform(static_cast<uint64_t>(i)) * cells)];
  double chi2 = 0;
  for (const int c : counts) chi2 += (c - 1000.0) * (c - 1000.0) / 1000.0;
  // 63 degrees of freedom: mean 63, 99.99 % below 111, and far below the mean is as suspect.
  EXPECT_LT(chi2, 111);
  EXPECT_GT(chi2, 28);
}

}  // namespace
}  // namespace fathom
