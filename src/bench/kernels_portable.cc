#include "bench/kernels.h"

namespace fathom::bench {
namespace {

constexpr int num_lanes = 32;

bool supported() { return true; }

double multiply_registers(int64_t rounds) {
  constexpr int repeats = 32;
  float sum[num_lanes] = {};
  // Equal sums would be one sum to the compiler, and one product.
  for (float& s : sum) asm volatile("" : "+m"(s));
  float a = 0.999f;
  float b = 1e-3f;
  for (int64_t i = 0; i < rounds; ++i) {
    // Unknown to the compiler from here on.
    asm volatile("" : "+m"(a), "+m"(b));
    const float x = a;
    const float y = b;
    for (int repeat = 0; repeat < repeats; ++repeat)
      for (int lane = 0; lane < num_lanes; ++lane) sum[lane] = sum[lane] * x + y;
    asm volatile("" : : "m"(sum) : "memory");
  }
  return static_cast<double>(rounds) * repeats * num_lanes * 2;
}

double multiply_streamed(const std::byte* operands, int64_t bytes, int64_t rounds) {
  const auto* x = reinterpret_cast<const float*>(operands);
  const int64_t half = bytes / 2 / static_cast<int64_t>(sizeof(float));
  float sum[num_lanes] = {};
  for (int64_t i = 0; i < rounds; ++i) {
    for (int64_t j = 0; j < half; j += num_lanes)
      for (int lane = 0; lane < num_lanes; ++lane) sum[lane] += x[j + lane] * x[half + j + lane];
    asm volatile("" : : "m"(sum) : "memory");
  }
  return static_cast<double>(rounds) * static_cast<double>(half) * 2;
}

uint64_t read(const std::byte* data, int64_t bytes) {
  constexpr int num_streams = 4;
  constexpr int64_t words = 8;  // of a cache line
  const int64_t part = bytes / num_streams / 8;
  const auto* x = reinterpret_cast<const uint64_t*>(data);
  uint64_t sum[words] = {};
  for (int64_t i = 0; i < part; i += words)
    for (int64_t stream = 0; stream < num_streams; ++stream)
      for (int64_t w = 0; w < words; ++w) sum[w] += x[stream * part + i + w];
  uint64_t total = 0;
  for (uint64_t s : sum) total += s;
  return total;
}

constexpr Kernels kernels{"portable-f32", supported, multiply_registers, multiply_streamed, read};

}  // namespace

const Kernels& portable_kernels() { return kernels; }

}  // namespace fathom::bench
