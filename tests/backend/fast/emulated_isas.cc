// Stands in for available_isas.cc where AMX is emulated: a processor with AVX-512 has it, too.
#include <array>

#include "backend/fast/isa.h"

namespace fathom {

std::span<const Isa> available_isas() {
  static constexpr std::array<Isa, 2> isas = {Isa::portable, Isa::amx};
  const bool avx512 = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vbmi") &&
                      __builtin_cpu_supports("avx512vnni");
  return std::span(isas).first(avx512 ? 2 : 1);
}

}  // namespace fathom
