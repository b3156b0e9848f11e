#include "bench/random_fill.h"

#include <algorithm>
#include <cstring>

#include "bench/team.h"

namespace fathom::bench {
namespace {

constexpr int64_t chunk_bytes = int64_t{1} << 20;  // has a stream of its own

// Random bits become a value by an AND and an OR, the same for every 8 bytes.
struct Masks {
  uint64_t keep;
  uint64_t set;
};

constexpr uint64_t every(uint64_t pattern, int bytes) {
  uint64_t all = 0;
  for (int i = 0; i < 8; i += bytes) all |= pattern << (8 * i);
  return all;
}

constexpr Masks masks_of(DType dtype) {
  switch (dtype) {
    case DType::e4m3:  // exponents 4 to 7 of 15: 2^-3 to 2, both signs
      return {every(0x9F, 1), every(0x20, 1)};
    case DType::e8m0:  // 2^-7 to 2^-4
      return {every(0x03, 1), every(0x78, 1)};
    case DType::bf16:  // 2^-7 to 2^-3, both signs
      return {every(0x81FF, 2), every(0x3C00, 2)};
    case DType::f32:  // the same
      return {every(0x81FFFFFF, 4), every(0x3C000000, 4)};
    default:
      return {~uint64_t{0}, 0};
  }
}

void fill_chunk(std::byte* data, int64_t bytes, Masks masks, uint64_t seed) {
  uint64_t state = (seed + 1) * 0x9E3779B97F4A7C15u;
  for (int64_t i = 0; i < bytes; i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const uint64_t value = (state & masks.keep) | masks.set;
    std::memcpy(data + i, &value, static_cast<size_t>(std::min<int64_t>(8, bytes - i)));
  }
}

}  // namespace

void fill_random(std::byte* data, int64_t bytes, DType dtype, uint64_t seed, int threads) {
  const Masks masks = masks_of(dtype);
  const int64_t chunks = (bytes + chunk_bytes - 1) / chunk_bytes;
  const auto fill = [&](int64_t first, int64_t stride) {
    for (int64_t i = first; i < chunks; i += stride)
      fill_chunk(data + i * chunk_bytes, std::min(chunk_bytes, bytes - i * chunk_bytes), masks,
                 seed * 0x100000001B3u + static_cast<uint64_t>(i));
  };
  if (chunks <= 4) {
    fill(0, 1);
  } else {
    run_together(threads, [&](int thread) { fill(thread, threads); });
  }
}

}  // namespace fathom::bench
