#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "bench/picks.h"
#include "bench/random_fill.h"
#include "bench/record_blocks.h"
#include "tensor/float8.h"

namespace fathom::bench {
namespace {

std::vector<std::byte> filled(int64_t bytes, DType dtype, uint64_t seed, int threads) {
  std::vector<std::byte> out(static_cast<size_t>(bytes));
  fill_random(out.data(), bytes, dtype, seed, threads);
  return out;
}

TEST(RandomFill, FollowsFromTheSeedAlone) {
  constexpr int64_t bytes = (int64_t{7} << 20) + 13;
  const auto one = filled(bytes, DType::bf16, 3, 1);
  EXPECT_EQ(one, filled(bytes, DType::bf16, 3, 5));
  EXPECT_NE(one, filled(bytes, DType::bf16, 4, 1));
}

TEST(RandomFill, ValuesAreFiniteOfLikeSizeAndBothSigns) {
  for (const DType dtype : {DType::bf16, DType::f32, DType::e4m3, DType::e8m0}) {
    const auto bytes = filled(40000, dtype, 1, 1);
    int negative = 0;
    std::set<float> distinct;
    for (int64_t i = 0; i < 40000 / dtype_bytes(dtype); ++i) {
      const auto code = static_cast<uint8_t>(bytes[static_cast<size_t>(i)]);
      const TensorView view{bytes.data(), dtype, {40000 / dtype_bytes(dtype)}, {}};
      const float value = dtype == DType::e4m3   ? e4m3_to_float(code)
                          : dtype == DType::e8m0 ? e8m0_to_float(code)
                                                 : load_float(view, i);
      ASSERT_TRUE(std::isfinite(value)) << dtype_name(dtype);
      ASSERT_GE(std::fabs(value), 0x1p-8f) << dtype_name(dtype);
      ASSERT_LE(std::fabs(value), 2.0f) << dtype_name(dtype);
      if (value < 0) ++negative;
      distinct.insert(value);
    }
    EXPECT_GE(distinct.size(), 4u) << dtype_name(dtype);
    const bool has_sign = dtype != DType::e8m0;
    EXPECT_EQ(negative > 40000 / dtype_bytes(dtype) / 3, has_sign) << dtype_name(dtype);
  }
}

TEST(RandomRecords, UnpackToNumbers) {
  constexpr int64_t dim = 64;
  constexpr int64_t count = 300;
  const auto check = [](RecordKind kind, const auto& unpack) {
    const auto records = RecordBlocks::create(kind, dim, count);
    ASSERT_TRUE(records);
    bool any = false;
    for (int64_t i = 0; i < count; ++i) {
      float values[dim];
      unpack(records->view().at(i, record_bytes(kind, dim)), dim, values);
      for (float v : values) {
        ASSERT_TRUE(std::isfinite(v));
        ASSERT_LE(std::fabs(v), 16.0f);
        any = any || v != 0;
      }
    }
    EXPECT_TRUE(any);
  };
  check(RecordKind::window, unpack_window);
  check(RecordKind::compressed, unpack_compressed);
  check(RecordKind::index, unpack_index);
}

TEST(RandomPicks, AreAscendingDifferentAndInRange) {
  for (const auto& [k, count] : {std::pair<int64_t, int64_t>{8, 8}, {5, 17}, {64, 100000}}) {
    const auto picks = random_picks(3, k, count);
    ASSERT_EQ(picks.size(), static_cast<size_t>(3 * k));
    for (size_t i = 0; i < picks.size(); ++i) {
      EXPECT_GE(picks[i], 0);
      EXPECT_LT(picks[i], count);
      if (i % static_cast<size_t>(k) != 0) {
        EXPECT_LT(picks[i - 1], picks[i]);
      }
    }
  }
}

}  // namespace
}  // namespace fathom::bench
