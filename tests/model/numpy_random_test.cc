#include "model/numpy_random.h"

#include <gtest/gtest.h>

#include <vector>

namespace fathom {
namespace {

// Expected values: numpy.random.default_rng(seed).bit_generator.random_raw and .integers(0, bound,
// dtype=int64).

std::vector<uint64_t> raw(uint64_t seed, size_t count) {
  NumpyRandom random(seed);
  std::vector<uint64_t> values(count);
  for (uint64_t& value : values) value = random.next();
  return values;
}

std::vector<uint64_t> below(uint64_t seed, uint64_t bound, size_t count) {
  NumpyRandom random(seed);
  std::vector<uint64_t> values(count);
  for (uint64_t& value : values) value = random.below(bound);
  return values;
}

TEST(NumpyRandom, GivesNumpysRawBits) {
  EXPECT_EQ(raw(10007, 3),
            (std::vector<uint64_t>{15187255322829266483u, 959186003677246517u, 7126631698937927467u}));
  EXPECT_EQ(raw(0, 3),
            (std::vector<uint64_t>{11749869230777074271u, 4976686463289251617u, 755828109848996024u}));
  EXPECT_EQ(raw((uint64_t{1} << 40) + 5, 2),
            (std::vector<uint64_t>{87427594128977387u, 6872972437549564694u}));
}

TEST(NumpyRandom, GivesNumpysBoundedIntegers) {
  EXPECT_EQ(below(3, (uint64_t{1} << 62) + 12345, 6),
            (std::vector<uint64_t>{394987066606204127u, 1092095702285942888u, 2684748522177273307u,
                                   434091743353604173u, 1997445454492786468u, 2209234173745580434u}));
  EXPECT_EQ(below(5, (uint64_t{1} << 63) - 1, 4),
            (std::vector<uint64_t>{7424841456459477715u, 7451938487489940729u, 4753039369592592095u,
                                   2636052457199469114u}));
}

// 3 * 2^61 does not divide 2^64: a quarter of the draws is rejected.
TEST(NumpyRandom, RejectsAsNumpyDoes) {
  EXPECT_EQ(below(9, uint64_t{3} << 61, 6),
            (std::vector<uint64_t>{6019974129744605868u, 4172294835949698407u, 4953467036239998961u,
                                   6332168554818677320u, 6351935453217137864u, 183921424958817184u}));
}

TEST(NumpyRandom, DrawsNothingForOneValue) {
  NumpyRandom random(0);
  EXPECT_EQ(random.below(1), 0u);
  EXPECT_EQ(random.next(), 11749869230777074271u);
}

}  // namespace
}  // namespace fathom
