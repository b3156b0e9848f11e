// Broken invariants: print the expression with its values and stop the process.
//
// For programming errors only. Nothing that a file, flag or request says may reach a CHECK.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <type_traits>
#include <utility>

namespace fathom::internal {

[[noreturn]] void check_failed(const char* file, int line, const char* expression, const std::string& values);

template <class A, class B>
[[noreturn]] void check_failed_values(const char* file, int line, const char* expression, const A& a,
                                      const B& b) {
  const auto show = [](const auto& v) -> std::string {
    if constexpr (std::is_enum_v<std::decay_t<decltype(v)>>)
      return fmt::format("{}", static_cast<long long>(v));
    else
      return fmt::format("{}", v);
  };
  check_failed(file, line, expression, show(a) + " vs " + show(b));
}

// Compares integers of different signedness by value.
template <class A, class B>
constexpr bool check_eq(const A& a, const B& b) {
  if constexpr (std::integral<A> && std::integral<B> && !std::same_as<A, bool> && !std::same_as<B, bool>)
    return std::cmp_equal(a, b);
  else
    return a == b;
}
template <class A, class B>
constexpr bool check_lt(const A& a, const B& b) {
  if constexpr (std::integral<A> && std::integral<B>)
    return std::cmp_less(a, b);
  else
    return a < b;
}

}  // namespace fathom::internal

#define FATHOM_CHECK(condition)                                             \
  do {                                                                      \
    if (!(condition)) [[unlikely]]                                          \
      ::fathom::internal::check_failed(__FILE__, __LINE__, #condition, ""); \
  } while (false)

#define FATHOM_CHECK_OP(a, b, holds, text)                                                 \
  do {                                                                                     \
    const auto& check_a = (a);                                                             \
    const auto& check_b = (b);                                                             \
    if (!(holds)) [[unlikely]]                                                             \
      ::fathom::internal::check_failed_values(__FILE__, __LINE__, text, check_a, check_b); \
  } while (false)

#define FATHOM_CHECK_EQ(a, b) \
  FATHOM_CHECK_OP(a, b, ::fathom::internal::check_eq(check_a, check_b), #a " == " #b)
#define FATHOM_CHECK_LT(a, b) \
  FATHOM_CHECK_OP(a, b, ::fathom::internal::check_lt(check_a, check_b), #a " < " #b)
#define FATHOM_CHECK_LE(a, b) \
  FATHOM_CHECK_OP(a, b, !::fathom::internal::check_lt(check_b, check_a), #a " <= " #b)
