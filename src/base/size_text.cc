#include "base/size_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace fathom {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// The power of 1024 that a unit stands for.
std::optional<int> power_of(std::string_view unit) {
  constexpr std::string_view letters = "kmgt";
  if (unit.empty()) return 0;
  if (unit.size() == 1 && lower(unit[0]) == 'b') return 0;
  const size_t at = letters.find(lower(unit[0]));
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = unit.substr(1);
  const bool known = rest.empty() || (rest.size() == 1 && lower(rest[0]) == 'b') ||
                     (rest.size() == 2 && lower(rest[0]) == 'i' && lower(rest[1]) == 'b');
  return known ? std::optional<int>(static_cast<int>(at) + 1) : std::nullopt;
}

}  // namespace

Result<int64_t> parse_size(std::string_view text) {
  const auto refuse = [&] {
    return fail(ErrorCode::invalid_argument, "expected a size such as 16G, 512MiB or 1.5T, found '{}'", text);
  };
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number) || number < 0 || text.starts_with('-')) return refuse();
  std::string_view unit(at, static_cast<size_t>(end - at));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  const std::optional<int> power = power_of(unit);
  if (!power) return refuse();
  const double bytes = std::ldexp(number, 10 * *power);
  if (bytes >= 0x1p62) return refuse();
  return static_cast<int64_t>(bytes);
}

std::string size_text(int64_t bytes) {
  constexpr std::array<std::string_view, 5> units = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

}  // namespace fathom
