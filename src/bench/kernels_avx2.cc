#include <immintrin.h>

#include "bench/kernels.h"

namespace fathom::bench {
namespace {

// 6 rows by 2 registers: the block of an f32 product that fills 16 registers.
constexpr int block_rows = 6;
constexpr int block_columns = 2;
constexpr int lanes = 8;

bool supported() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

// Equal sums would be one sum to the compiler, and one product: it must not know what they start with.
void start(__m256 (&sum)[block_rows][block_columns]) {
  for (auto& row : sum)
    for (__m256& s : row) asm volatile("" : "+x"(s));
}

void keep(const __m256 (&sum)[block_rows][block_columns]) { asm volatile("" : : "m"(sum) : "memory"); }

double multiply_registers(int64_t rounds) {
  constexpr int repeats = 16;
  __m256 sum[block_rows][block_columns] = {};
  start(sum);
  __m256 a = _mm256_set1_ps(1e-3f);
  __m256 b = _mm256_set1_ps(1e-3f);
  for (int64_t i = 0; i < rounds * repeats; ++i) {
    asm volatile("" : "+x"(a), "+x"(b));
    for (int r = 0; r < block_rows; ++r)
      for (int c = 0; c < block_columns; ++c) sum[r][c] = _mm256_fmadd_ps(a, b, sum[r][c]);
  }
  keep(sum);
  return static_cast<double>(rounds) * repeats * block_rows * block_columns * lanes * 2;
}

double multiply_streamed(const std::byte* operands, int64_t bytes, int64_t rounds) {
  // Of every 64 + 24 bytes: two registers of the weights, and a value for each row to spread. Rounded down.
  const int64_t steps = bytes / 128;
  const auto* columns = reinterpret_cast<const float*>(operands);
  const auto* rows = reinterpret_cast<const float*>(operands + steps * 64);
  __m256 sum[block_rows][block_columns] = {};
  for (int64_t i = 0; i < rounds; ++i) {
    for (int64_t s = 0; s < steps; ++s) {
      const __m256 c0 = _mm256_load_ps(columns + s * 16);
      const __m256 c1 = _mm256_load_ps(columns + s * 16 + 8);
      for (int r = 0; r < block_rows; ++r) {
        const __m256 row = _mm256_broadcast_ss(rows + s * 16 + r);
        sum[r][0] = _mm256_fmadd_ps(row, c0, sum[r][0]);
        sum[r][1] = _mm256_fmadd_ps(row, c1, sum[r][1]);
      }
    }
    keep(sum);
  }
  return static_cast<double>(rounds) * static_cast<double>(steps) * block_rows * block_columns * lanes * 2;
}

uint64_t read(const std::byte* data, int64_t bytes) {
  constexpr int num_streams = 4;
  const int64_t part = bytes / num_streams;
  __m256i sum[8] = {};
  for (int64_t i = 0; i < part; i += 128)
    for (int64_t stream = 0; stream < num_streams; ++stream) {
      const std::byte* at = data + stream * part + i;
      for (int u = 0; u < 4; ++u)
        sum[(stream & 1) * 4 + u] = _mm256_add_epi64(
            sum[(stream & 1) * 4 + u], _mm256_load_si256(reinterpret_cast<const __m256i*>(at + u * 32)));
    }
  for (int i = 1; i < 8; ++i) sum[0] = _mm256_add_epi64(sum[0], sum[i]);
  alignas(32) uint64_t words[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(words), sum[0]);
  return words[0] + words[1] + words[2] + words[3];
}

constexpr Kernels kernels{"avx2-f32", supported, multiply_registers, multiply_streamed, read};

}  // namespace

const Kernels& avx2_kernels() { return kernels; }

}  // namespace fathom::bench
