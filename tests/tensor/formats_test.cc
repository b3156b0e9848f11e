// Number formats and quantizers against the golden values, and packing round trips.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tensor/bfloat16.h"
#include "tensor/cache_layout.h"
#include "tensor/float4.h"
#include "tensor/float8.h"
#include "tensor/quantize.h"
#include "tests/support/golden.h"

namespace fathom {
namespace {

using testing::Golden;

uint32_t bits(float v) { return std::bit_cast<uint32_t>(v); }

TEST(Formats, DecodeTables) {
  const Golden golden("ops/formats.safetensors");
  const std::vector<float> e4m3 = golden.floats("e4m3_values");
  ASSERT_EQ(e4m3.size(), 256u);
  for (int i = 0; i < 256; ++i) {
    const float want = e4m3[static_cast<size_t>(i)];
    const float got = e4m3_to_float(static_cast<uint8_t>(i));
    if (std::isnan(want))
      EXPECT_TRUE(std::isnan(got)) << i;
    else
      EXPECT_EQ(bits(got), bits(want)) << i;
  }
  const std::vector<float> e2m1 = golden.floats("e2m1_values");
  for (size_t i = 0; i < e2m1.size(); ++i) EXPECT_EQ(e2m1_to_float(static_cast<uint8_t>(i)), e2m1[i]) << i;
  for (int i = 0; i < 255; ++i)
    EXPECT_EQ(e8m0_to_float(static_cast<uint8_t>(i)), std::ldexp(1.0f, i - 127)) << i;
  EXPECT_TRUE(std::isnan(e8m0_to_float(e8m0_nan)));
}

TEST(Formats, RoundingOfProbes) {
  const Golden golden("ops/formats.safetensors");
  const std::vector<float> probe = golden.floats("probe");
  const std::vector<float> to_bf = golden.floats("to_bf16");
  const std::vector<float> to_8 = golden.floats("to_e4m3");
  const std::vector<float> to_4 = golden.floats("to_e2m1");
  for (size_t i = 0; i < probe.size(); ++i) {
    EXPECT_EQ(bits(round_bf16(probe[i])), bits(to_bf[i])) << probe[i];
    EXPECT_EQ(bits(e4m3_to_float(float_to_e4m3(probe[i]))), bits(to_8[i])) << probe[i];
    EXPECT_EQ(bits(e2m1_to_float(float_to_e2m1(probe[i]))), bits(to_4[i])) << probe[i];
  }
}

TEST(Formats, EveryCodeRoundTrips) {
  for (int i = 0; i < 256; ++i) {
    const auto code = static_cast<uint8_t>(i);
    if ((code & 0x7F) == 0x7F) {
      EXPECT_EQ(float_to_e4m3(std::nanf("")) & 0x7F, 0x7F);
    } else {
      EXPECT_EQ(float_to_e4m3(e4m3_to_float(code)), code) << i;
    }
  }
  for (int i = 0; i < 16; ++i) EXPECT_EQ(float_to_e2m1(e2m1_to_float(static_cast<uint8_t>(i))), i);
  for (uint32_t i = 0; i < 65536; ++i) {
    const bf16 v{static_cast<uint16_t>(i)};
    if (std::isnan(to_float(v)))
      EXPECT_TRUE(std::isnan(to_float(to_bf16(to_float(v)))));
    else
      EXPECT_EQ(to_bf16(to_float(v)).bits, i);
  }
}

// Every f32 midpoint between neighbouring E4M3 values goes to the even code, its neighbours to the nearer.
TEST(Formats, E4M3Midpoints) {
  for (int code = 0; code < 0x7E; ++code) {
    const float low = e4m3_to_float(static_cast<uint8_t>(code));
    const float high = e4m3_to_float(static_cast<uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(float_to_e4m3(middle), code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, 0.0f)), code);
    EXPECT_EQ(float_to_e4m3(std::nextafter(middle, 1e9f)), code + 1);
  }
  EXPECT_EQ(float_to_e4m3(INFINITY), 0x7E);
  EXPECT_EQ(float_to_e4m3(-1e30f), 0xFE);
}

TEST(Formats, HalfPrecision) {
  EXPECT_EQ(half_to_float(0x3C00), 1.0f);
  EXPECT_EQ(half_to_float(0xC000), -2.0f);
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24f);
  EXPECT_EQ(half_to_float(0x03FF), 1023 * 0x1p-24f);
  EXPECT_EQ(half_to_float(0x7BFF), 65504.0f);
  EXPECT_TRUE(std::isinf(half_to_float(0x7C00)));
  EXPECT_TRUE(std::isnan(half_to_float(0x7E00)));
}

TEST(Quantizers, Golden) {
  const Golden golden("ops/act_quant.safetensors");
  const std::vector<float> x = golden.floats("x");
  const std::vector<float> y = golden.floats("y");
  const std::vector<float> index = golden.floats("fp4_e8m0_32");
  const std::vector<float> compressed = golden.floats("fp4_e4m3_16");
  const std::vector<int32_t> exponents = golden.values<int32_t>("scale_exponent");
  std::vector<float> out = x;
  round_to_fp8_grid(out.data(), static_cast<int64_t>(out.size()));
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(bits(out[i]), bits(y[i])) << i;
  uint8_t codes[32];
  for (size_t b = 0; b < exponents.size(); ++b)
    EXPECT_EQ(quantize_fp8_block(x.data() + b * 32, 32, codes) - 127, exponents[b]);
  out = x;
  round_to_index_fp4_grid(out.data(), static_cast<int64_t>(out.size()));
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(bits(out[i]), bits(index[i])) << i;
  std::vector<std::byte> record(static_cast<size_t>(compressed_record(128).bytes()));
  for (size_t r = 0; r < x.size() / 128; ++r) {
    pack_compressed(x.data() + r * 128, 128, record.data());
    unpack_compressed(record.data(), 128, out.data() + r * 128);
  }
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(bits(out[i]), bits(compressed[i])) << i;
}

TEST(CacheLayout, ReleasedBytesPerToken) {
  const int64_t record = compressed_record(512).bytes() + index_record(128).bytes();
  EXPECT_EQ(3 * record / 2 + record, 890);
}

// Packing values that are on the grid already changes nothing: 64 rows with different scales.
TEST(CacheLayout, PackingIsLossless) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  constexpr int64_t dim = 128;
  for (int row = 0; row < 64; ++row) {
    std::vector<float> x(dim);
    for (float& v : x) v = round_bf16(normal(random) * std::ldexp(1.0f, row - 32));
    std::vector<float> once(dim);
    std::vector<float> twice(dim);
    std::vector<std::byte> record(512);
    pack_window(x.data(), dim, record.data());
    unpack_window(record.data(), dim, once.data());
    pack_window(once.data(), dim, record.data());
    unpack_window(record.data(), dim, twice.data());
    EXPECT_EQ(once, twice);
    for (float v : once) EXPECT_EQ(v, round_bf16(v));
    pack_index(x.data(), dim, record.data());
    unpack_index(record.data(), dim, once.data());
    pack_index(once.data(), dim, record.data());
    unpack_index(record.data(), dim, twice.data());
    EXPECT_EQ(once, twice);
    for (float v : once) EXPECT_EQ(v, round_bf16(v));
  }
}

// E2M1 has neither NaN nor infinity: a block that holds one must not become numbers.
TEST(CacheLayout, WhatIsNotFiniteStaysSo) {
  constexpr int64_t dim = 64;
  std::vector<std::byte> record(512);
  std::vector<float> out(dim);
  for (const float bad : {std::nanf(""), -std::nanf(""), HUGE_VALF, -HUGE_VALF})
    for (const size_t at : {0, 15, 16, 33, 63}) {
      std::vector<float> x(dim, 6.0f);  // on every grid
      x[at] = bad;
      const auto expect_bad = [&](size_t block) {
        EXPECT_FALSE(std::isfinite(out[at])) << bad << " at " << at;
        for (size_t i = 0; i < x.size(); ++i)
          EXPECT_TRUE(i / block == at / block || out[i] == 6) << bad << " at " << at << ": " << i;
      };
      pack_window(x.data(), dim, record.data());
      unpack_window(record.data(), dim, out.data());
      expect_bad(fp8_block);
      pack_compressed(x.data(), dim, record.data());
      unpack_compressed(record.data(), dim, out.data());
      expect_bad(kv_fp4_block);
      pack_index(x.data(), dim, record.data());
      unpack_index(record.data(), dim, out.data());
      expect_bad(index_fp4_block);
      out = x;
      round_to_index_fp4_grid(out.data(), dim);
      expect_bad(index_fp4_block);
    }
}

TEST(Weights, RowsOfEveryFormat) {
  const Golden golden("ops/linear.safetensors");
  const Weight fp8{golden.view("fp8.weight"), golden.view("fp8.scale"), fp8_weight_block};
  const std::vector<float> want8 = golden.floats("fp8_dequantized");
  std::vector<float> row(128);
  for (int64_t r = 0; r < 80; ++r) {
    ASSERT_TRUE(load_row(fp8, r, row.data()));
    for (size_t i = 0; i < 128; ++i) EXPECT_EQ(row[i], want8[static_cast<size_t>(r) * 128 + i]);
  }
  TensorView packed = golden.view("fp4.weight");
  packed.dtype = DType::e2m1x2;
  const Weight fp4{packed, golden.view("fp4.scale"), fp4_weight_block};
  EXPECT_EQ(fp4.in(), 128);
  const std::vector<float> want4 = golden.floats("fp4_dequantized");
  for (int64_t r = 0; r < 48; ++r) {
    ASSERT_TRUE(load_row(fp4, r, row.data()));
    for (size_t i = 0; i < 128; ++i) EXPECT_EQ(row[i], want4[static_cast<size_t>(r) * 128 + i]);
  }
}

// 64 x 96 with a scale of its own for every 32 x 32 tile, one of them NaN.
TEST(Weights, ScaleTilesAndNan) {
  std::vector<uint8_t> codes(64 * 96, 0x38);  // 1.0
  std::vector<uint8_t> scales = {120, 121, 122, 123, 124, e8m0_nan};
  const Weight w{{reinterpret_cast<const std::byte*>(codes.data()), DType::e4m3, Shape{64, 96}, "w"},
                 {reinterpret_cast<const std::byte*>(scales.data()), DType::e8m0, Shape{2, 3}, "s"},
                 fp8_weight_block};
  std::vector<float> row(96);
  ASSERT_TRUE(load_row(w, 31, row.data()));
  for (size_t i = 0; i < 96; ++i) EXPECT_EQ(row[i], std::ldexp(1.0f, 120 + static_cast<int>(i / 32) - 127));
  EXPECT_FALSE(load_row(w, 32, row.data()));
}

TEST(Weights, UnalignedFloats) {
  const float values[] = {1.5f, -2.0f, 1e-20f};
  std::vector<std::byte> memory(1 + sizeof(values));
  std::memcpy(memory.data() + 1, values, sizeof(values));
  const TensorView view{memory.data() + 1, DType::f32, Shape{3}, {}};
  float out[3];
  load_floats(view, 0, 3, out);
  EXPECT_EQ(out[0], 1.5f);
  EXPECT_EQ(load_float(view, 2), 1e-20f);
}

}  // namespace
}  // namespace fathom
