// How failures of outside input travel: Result<T>, Status and the Error they carry.
//
// Files, flags, requests and prompts give errors, never aborts. An Error names the thing, what was
// expected and what was found, in one line a user can act on. Broken invariants are not errors: check.h.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace fathom {

enum class ErrorCode {
  invalid_argument,  // a flag, field or value that breaks a rule
  not_found,         // a file or tensor that is not there
  io,                // the operating system refused
  format,            // a file or text that is not what it claims to be
  unsupported,       // well-formed, but not implemented here
  out_of_memory,     // a buffer that could not be had
  cancelled,         // stopped by the caller
};

struct Error {
  ErrorCode code = ErrorCode::invalid_argument;
  std::string message;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = tl::expected<void, Error>;

/// An error to return: `return fail(ErrorCode::format, "{}: expected {}, found {}", file, a, b);`
template <class... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

/// Passes an error on to the caller, with its message as it is.
[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace fathom

#define FATHOM_CONCAT_INNER(a, b) a##b
#define FATHOM_CONCAT(a, b) FATHOM_CONCAT_INNER(a, b)

/// Evaluates an expression that gives a Status (or Result) and returns its error, if any.
#define FATHOM_TRY(expression)                                          \
  do {                                                                  \
    if (auto fathom_status = (expression); !fathom_status) [[unlikely]] \
      return ::fathom::fail(std::move(fathom_status).error());          \
  } while (false)

/// `FATHOM_ASSIGN(auto x, f());` declares x from a Result's value or returns its error.
#define FATHOM_ASSIGN(declaration, expression) \
  FATHOM_ASSIGN_INNER(FATHOM_CONCAT(fathom_result_, __LINE__), declaration, expression)
#define FATHOM_ASSIGN_INNER(result, declaration, expression) \
  auto result = (expression);                                \
  if (!result) [[unlikely]]                                  \
    return ::fathom::fail(std::move(result).error());        \
  declaration = std::move(result).value()
