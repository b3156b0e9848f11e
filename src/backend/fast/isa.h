// Which instructions the fast CPU path may use.
#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace fathom {

/// Ascending: a processor that has one has those before it. Results differ between them within the bounds of
/// spec 1 (Exactness, fast paths), never within one.
enum class Isa {
  portable,
  avx2,    // with FMA
  avx512,  // F, BW, VL, DQ, VBMI, VNNI and BF16
  amx,     // avx512 and AMX-BF16 and AMX-INT8 tiles
};

inline constexpr Isa all_isas[] = {Isa::portable, Isa::avx2, Isa::avx512, Isa::amx};

std::string_view isa_name(Isa isa);  // "avx512"
std::optional<Isa> isa_of_name(std::string_view name);

/// What this processor and its operating system offer, best last. Asks the kernel for AMX's tile state, which
/// a process must do before it uses tiles.
std::span<const Isa> available_isas();
inline Isa best_isa() { return available_isas().back(); }

}  // namespace fathom
