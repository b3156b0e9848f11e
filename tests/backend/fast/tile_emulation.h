// AMX's tile instructions in software, for kernels that are compiled with this in front of them: the tests
// run where no processor has tiles. Bit for bit what an Emerald Rapids gives for random bits, NaN apart.
#pragma once

#include <immintrin.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace tile_emulation {
namespace {

struct Tiles {
  uint16_t row_bytes[8];
  uint8_t rows[8];
  uint8_t data[8][16][64];
};
thread_local Tiles tiles;

[[maybe_unused]] void configure(const void* config) {
  const auto* bytes = static_cast<const uint8_t*>(config);
  std::memset(&tiles, 0, sizeof(tiles));
  std::memcpy(tiles.row_bytes, bytes + 16, sizeof(tiles.row_bytes));
  std::memcpy(tiles.rows, bytes + 48, sizeof(tiles.rows));
}

[[maybe_unused]] void zero(int t) { std::memset(tiles.data[t], 0, sizeof(tiles.data[t])); }

[[maybe_unused]] void load(int t, const void* from, int64_t stride) {
  zero(t);
  for (int r = 0; r < tiles.rows[t]; ++r)
    std::memcpy(tiles.data[t][r], static_cast<const uint8_t*>(from) + r * stride, tiles.row_bytes[t]);
}

[[maybe_unused]] void store(int t, void* to, int64_t stride) {
  for (int r = 0; r < tiles.rows[t]; ++r)
    std::memcpy(static_cast<uint8_t*>(to) + r * stride, tiles.data[t][r], tiles.row_bytes[t]);
}

template <class T>
T element(int t, int row, int i) {
  T value;
  std::memcpy(&value, tiles.data[t][row] + i * static_cast<int>(sizeof(T)), sizeof(T));
  return value;
}

template <class T>
void set_element(int t, int row, int i, T value) {
  std::memcpy(tiles.data[t][row] + i * static_cast<int>(sizeof(T)), &value, sizeof(T));
}

float from_bf16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

// Even and odd places of the pairs in chains of their own.
[[gnu::noinline]] void multiply_bf16(int sum, int a, int b) {
  for (int m = 0; m < tiles.rows[sum]; ++m) {
    float even[16] = {};
    float odd[16] = {};
    for (int k = 0; k < tiles.row_bytes[a] / 4; ++k) {
      const float a_even = from_bf16(element<uint16_t>(a, m, 2 * k));
      const float a_odd = from_bf16(element<uint16_t>(a, m, 2 * k + 1));
      for (int n = 0; n < 16; ++n) {
        const auto pair = element<uint32_t>(b, k, n);
        even[n] = std::fmaf(a_even, from_bf16(static_cast<uint16_t>(pair)), even[n]);
        odd[n] = std::fmaf(a_odd, from_bf16(static_cast<uint16_t>(pair >> 16)), odd[n]);
      }
    }
    for (int n = 0; n < tiles.row_bytes[sum] / 4; ++n)
      set_element(sum, m, n, element<float>(sum, m, n) + (even[n] + odd[n]));
  }
}

// Subnormal operands and results are zero.
[[maybe_unused]] void dpbf16ps(int sum, int a, int b) {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  multiply_bf16(sum, a, b);
  _mm_setcsr(before);
}

[[maybe_unused]] void dpbsud(int sum, int a, int b) {
  for (int m = 0; m < tiles.rows[sum]; ++m) {
    for (int n = 0; n < tiles.row_bytes[sum] / 4; ++n) {
      int32_t dot = element<int32_t>(sum, m, n);
      for (int k = 0; k < tiles.row_bytes[a] / 4; ++k)
        for (int i = 0; i < 4; ++i)
          dot += element<int8_t>(a, m, 4 * k + i) * element<uint8_t>(b, k, 4 * n + i);
      set_element(sum, m, n, dot);
    }
  }
}

}  // namespace
}  // namespace tile_emulation

#undef _tile_dpbf16ps
#undef _tile_dpbsud
#undef _tile_loadconfig
#undef _tile_loadd
#undef _tile_release
#undef _tile_stored
#undef _tile_zero
#define _tile_dpbf16ps(sum, a, b) tile_emulation::dpbf16ps(sum, a, b)
#define _tile_dpbsud(sum, a, b) tile_emulation::dpbsud(sum, a, b)
#define _tile_loadconfig(config) tile_emulation::configure(config)
#define _tile_loadd(t, from, stride) tile_emulation::load(t, from, static_cast<int64_t>(stride))
#define _tile_release() static_cast<void>(0)
#define _tile_stored(t, to, stride) tile_emulation::store(t, to, static_cast<int64_t>(stride))
#define _tile_zero(t) tile_emulation::zero(t)
