// How the AMX kernels configure their tiles: all eight of them whole, 16 rows of 64 bytes.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "backend/fast/simd/lanes.h"

namespace fathom::fast::FATHOM_ISA {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Not on the stack: g++ does not see that the configuration is read.
static const TileConfig whole_tiles;

// To be called between writing what a tile is loaded from and loading it: g++'s loads do not say that they
// read memory, so that the writes might come later, or never.
FATHOM_SIMD void publish_to_tiles() { asm volatile("" ::: "memory"); }

FATHOM_SIMD void configure_tiles() { _tile_loadconfig(&whole_tiles); }

}  // namespace fathom::fast::FATHOM_ISA
