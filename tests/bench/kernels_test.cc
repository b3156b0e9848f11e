#include "bench/kernels.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/memory_limit.h"
#include "bench/limit_probe.h"
#include "bench/limits.h"
#include "bench/random_fill.h"
#include "bench/spare_memory.h"

namespace fathom::bench {
namespace {

constexpr int64_t bytes = 64 * 4096;

TEST(Kernels, ThePortableOnesAreAlwaysThere) {
  const auto all = available_kernels();
  ASSERT_FALSE(all.empty());
  EXPECT_STREQ(all.back()->name, "portable-f32");
}

TEST(Kernels, ReadTouchesEveryWordOnce) {
  const auto memory = take_spare_memory(bytes);
  ASSERT_TRUE(memory);
  fill_random(memory->data(), bytes, DType::u8, 5, 1);
  uint64_t expected = 0;
  for (int64_t i = 0; i < bytes; i += 8) {
    uint64_t word;
    std::memcpy(&word, memory->data() + i, 8);
    expected += word;
  }
  for (const Kernels* kernels : available_kernels())
    if (kernels->read != nullptr) {
      EXPECT_EQ(kernels->read(memory->data(), bytes), expected) << kernels->name;
    }
}

// The FLOP of a block's step, worked out by hand from the shapes in the files.
TEST(Kernels, ProductsAreCounted) {
  const auto memory = take_spare_memory(bytes);
  ASSERT_TRUE(memory);
  fill_random(memory->data(), bytes, DType::bf16, 5, 1);
  for (const Kernels* kernels : available_kernels()) {
    const std::string name = kernels->name;
    double of_registers = 0;
    double streamed = 0;
    if (name == "portable-f32") {
      of_registers = 32 * 32 * 2;
      streamed = bytes / 8 * 2;  // pairs of floats
    } else if (name == "avx2-f32") {
      of_registers = 16 * 12 * 8 * 2;
      streamed = bytes / 128 * 12 * 8 * 2;
    } else if (name == "avx512-bf16") {
      of_registers = 4 * 24 * 32 * 2;
      streamed = bytes / 192 * 24 * 32 * 2;
    } else if (name == "amx-bf16") {
      of_registers = 4 * 16384;
      streamed = bytes / 4096 * 4 * 16384;
    }
    EXPECT_EQ(kernels->multiply_registers(3), 3 * of_registers) << name;
    EXPECT_EQ(kernels->multiply_streamed(memory->data(), bytes, 2), 2 * streamed) << name;
  }
}

TEST(SpareMemory, IsRefusedWhereLessIsLeft) {
  const MemoryLimit limit = available_memory();
  if (limit.source.empty()) GTEST_SKIP() << "nothing says how much memory is left";
  const auto memory = take_spare_memory(2 * limit.bytes);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(memory.error().message.find("are left (/"), std::string::npos) << memory.error().message;
}

TEST(LimitProbe, TakesNoMoreMemoryThanItMay) {
  MachineLimits limits;
  limits.threads = 2;
  limits.read_all.best = 1e9;
  limits.peaks = {{portable_kernels().name, {}, {.best = 1e9}, {.best = 1e9}}};
  const auto probe = LimitProbe::make(limits, int64_t{40} << 20);
  ASSERT_TRUE(probe) << probe.error().message;
  EXPECT_LE(probe->buffer_bytes(), int64_t{40} << 20);
}

}  // namespace
}  // namespace fathom::bench
