#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench/kernels.h"

namespace fathom::bench {
namespace {

constexpr int tile_bytes = 1024;                      // 16 rows of 64
constexpr double flop_per_tile = 2.0 * 16 * 16 * 32;  // of one instruction
constexpr int tiles = 4;                              // sums of a block, 2 by 2

// The kernel gives a process the tile registers when it asks: arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA).
bool supported() {
  constexpr unsigned amx_bf16 = 1u << 22;
  constexpr unsigned amx_tile = 1u << 24;
  constexpr long request_permission = 0x1023;
  constexpr long tile_data = 18;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & amx_bf16) == 0 || (d & amx_tile) == 0) return false;
  return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

void configure() {
  struct alignas(64) {
    unsigned char palette = 1;
    unsigned char start_row = 0;
    unsigned char reserved[14] = {};
    unsigned short row_bytes[16] = {};
    unsigned char rows[16] = {};
  } config;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = 64;
    config.rows[i] = 16;
  }
  _tile_loadconfig(&config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

void multiply_block() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

void finish() {
  alignas(64) unsigned char sums[tiles][tile_bytes];
  _tile_stored(0, sums[0], 64);
  _tile_stored(1, sums[1], 64);
  _tile_stored(2, sums[2], 64);
  _tile_stored(3, sums[3], 64);
  asm volatile("" : : "m"(sums) : "memory");
  _tile_release();
}

double multiply_registers(int64_t rounds) {
  configure();
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t i = 0; i < rounds; ++i) multiply_block();
  finish();
  return static_cast<double>(rounds) * tiles * flop_per_tile;
}

double multiply_streamed(const std::byte* operands, int64_t bytes, int64_t rounds) {
  const int64_t steps = bytes / (4 * tile_bytes);
  const std::byte* rows = operands;
  const std::byte* columns = operands + steps * 2 * tile_bytes;
  configure();
  for (int64_t i = 0; i < rounds; ++i)
    for (int64_t s = 0; s < steps; ++s) {
      _tile_loadd(4, rows + s * 2 * tile_bytes, 64);
      _tile_loadd(6, columns + s * 2 * tile_bytes, 64);
      _tile_loadd(5, rows + s * 2 * tile_bytes + tile_bytes, 64);
      _tile_loadd(7, columns + s * 2 * tile_bytes + tile_bytes, 64);
      multiply_block();
    }
  finish();
  return static_cast<double>(rounds) * static_cast<double>(steps) * tiles * flop_per_tile;
}

constexpr Kernels kernels{"amx-bf16", supported, multiply_registers, multiply_streamed, nullptr};

}  // namespace

const Kernels& amx_bf16_kernels() { return kernels; }

}  // namespace fathom::bench
