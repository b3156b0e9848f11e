#include <immintrin.h>

#include "bench/kernels.h"

namespace fathom::bench {
namespace {

// 12 rows by 2 registers: 24 sums and what they are made of fill 32 registers.
constexpr int block_rows = 12;
constexpr int block_columns = 2;
constexpr int products = 32;  // of one instruction

bool supported() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16");
}

// Equal sums would be one sum to the compiler, and one product: it must not know what they start with.
void start(__m512 (&sum)[block_rows][block_columns]) {
  for (auto& row : sum)
    for (__m512& s : row) asm volatile("" : "+v"(s));
}

void keep(const __m512 (&sum)[block_rows][block_columns]) { asm volatile("" : : "m"(sum) : "memory"); }

double multiply_registers(int64_t rounds) {
  constexpr int repeats = 4;
  __m512 sum[block_rows][block_columns] = {};
  start(sum);
  __m512i a = _mm512_set1_epi16(0x3A83);  // 1e-3
  __m512i b = a;
  for (int64_t i = 0; i < rounds * repeats; ++i) {
    asm volatile("" : "+v"(a), "+v"(b));
    for (int r = 0; r < block_rows; ++r)
      for (int c = 0; c < block_columns; ++c)
        sum[r][c] = _mm512_dpbf16_ps(sum[r][c], (__m512bh)a, (__m512bh)b);
  }
  keep(sum);
  return static_cast<double>(rounds) * repeats * block_rows * block_columns * products * 2;
}

double multiply_streamed(const std::byte* operands, int64_t bytes, int64_t rounds) {
  // A step takes two registers of weights and a pair of values for each row, 64 bytes with their padding.
  const int64_t steps = bytes / 192;
  const auto* columns = reinterpret_cast<const char*>(operands);
  const auto* rows = reinterpret_cast<const int*>(operands + steps * 128);
  __m512 sum[block_rows][block_columns] = {};
  for (int64_t i = 0; i < rounds; ++i) {
    for (int64_t s = 0; s < steps; ++s) {
      const __m512i c0 = _mm512_load_si512(columns + s * 128);
      const __m512i c1 = _mm512_load_si512(columns + s * 128 + 64);
      for (int r = 0; r < block_rows; ++r) {
        const __m512i row = _mm512_set1_epi32(rows[s * 16 + r]);
        sum[r][0] = _mm512_dpbf16_ps(sum[r][0], (__m512bh)row, (__m512bh)c0);
        sum[r][1] = _mm512_dpbf16_ps(sum[r][1], (__m512bh)row, (__m512bh)c1);
      }
    }
    keep(sum);
  }
  return static_cast<double>(rounds) * static_cast<double>(steps) * block_rows * block_columns * products * 2;
}

uint64_t read(const std::byte* data, int64_t bytes) {
  constexpr int num_streams = 4;
  const int64_t part = bytes / num_streams;
  __m512i sum[8] = {};
  for (int64_t i = 0; i < part; i += 256)
    for (int64_t stream = 0; stream < num_streams; ++stream) {
      const std::byte* at = data + stream * part + i;
      for (int u = 0; u < 4; ++u)
        sum[(stream & 1) * 4 + u] =
            _mm512_add_epi64(sum[(stream & 1) * 4 + u], _mm512_load_si512(at + u * 64));
    }
  for (int i = 1; i < 8; ++i) sum[0] = _mm512_add_epi64(sum[0], sum[i]);
  alignas(64) uint64_t words[8];
  _mm512_store_si512(words, sum[0]);
  uint64_t total = 0;
  for (const uint64_t word : words) total += word;
  return total;
}

constexpr Kernels kernels{"avx512-bf16", supported, multiply_registers, multiply_streamed, read};

}  // namespace

const Kernels& avx512_bf16_kernels() { return kernels; }

}  // namespace fathom::bench
