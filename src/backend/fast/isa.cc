#include "backend/fast/isa.h"

#include <algorithm>
#include <array>

namespace fathom {
namespace {

constexpr std::array<std::string_view, std::size(all_isas)> names = {"portable", "avx2", "avx512", "amx"};

}  // namespace

std::string_view isa_name(Isa isa) { return names[static_cast<size_t>(isa)]; }

std::optional<Isa> isa_of_name(std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Isa>(found - names.begin());
}

}  // namespace fathom
