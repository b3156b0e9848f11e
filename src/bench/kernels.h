// The bare machine: loops that do nothing but multiply, or nothing but read. One file for each instruction
// set, compiled with its flags.
//
// Those files use intrinsics and plain loops alone. A template or inline function of the standard library
// would be a weak symbol, of which the linker may keep the copy that other processors cannot run.
#pragma once

#include <cstddef>
#include <cstdint>

namespace fathom::bench {

struct Kernels {
  const char* name;  // "avx512-bf16"
  /// Whether this processor can run it, and the system lets it.
  bool (*supported)();
  /// Multiplies what is in registers, about 2^10 times for each of `rounds`; gives the FLOP done.
  double (*multiply_registers)(int64_t rounds);
  /// The inner loop of a packed matrix product, once over `bytes` of operands (a multiple of 4096, aligned to
  /// 64) for each of `rounds`; gives the FLOP done.
  double (*multiply_streamed)(const std::byte* operands, int64_t bytes, int64_t rounds);
  /// Reads `bytes` (a multiple of 4096, aligned to 64) in four streams at once; null where another set's loop
  /// is as good.
  uint64_t (*read)(const std::byte* data, int64_t bytes);
};

const Kernels& portable_kernels();
#if defined(__x86_64__)
const Kernels& avx2_kernels();
const Kernels& avx512_bf16_kernels();
const Kernels& amx_bf16_kernels();
#endif

}  // namespace fathom::bench
