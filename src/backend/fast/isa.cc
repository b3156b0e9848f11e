#include "backend/fast/isa.h"

#include <algorithm>
#include <array>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace fathom {
namespace {

constexpr std::array<std::string_view, std::size(all_isas)> names = {"portable", "avx2", "avx512", "amx"};

#if defined(__x86_64__)
bool has_avx2() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned f16c = 1u << 29;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & f16c) != 0;
}

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512bf16");
}

bool has_amx() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned amx_bf16 = 1u << 22;
  constexpr unsigned amx_tile = 1u << 24;
  constexpr unsigned amx_int8 = 1u << 25;
  constexpr unsigned needed = amx_bf16 | amx_tile | amx_int8;
  if ((d & needed) != needed) return false;
  // Linux hands out the large tile state on request only (arch_prctl(2)).
  constexpr long arch_req_xcomp_perm = 0x1023;
  constexpr long xfeature_xtiledata = 18;
  return ::syscall(SYS_arch_prctl, arch_req_xcomp_perm, xfeature_xtiledata) == 0;
}
#endif

std::vector<Isa> detect() {
  std::vector<Isa> isas = {Isa::portable};
#if defined(__x86_64__)
  if (has_avx2()) isas.push_back(Isa::avx2);
  if (isas.back() == Isa::avx2 && has_avx512()) isas.push_back(Isa::avx512);
  if (isas.back() == Isa::avx512 && has_amx()) isas.push_back(Isa::amx);
#endif
  return isas;
}

}  // namespace

std::string_view isa_name(Isa isa) { return names[static_cast<size_t>(isa)]; }

std::optional<Isa> isa_of_name(std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Isa>(found - names.begin());
}

std::span<const Isa> available_isas() {
  static const std::vector<Isa> isas = detect();
  return isas;
}

}  // namespace fathom
