// Typed reading of a JSON object's keys with ranges, remembering the first thing that is wrong.
//
// After an error every read gives a harmless value, so that a reader can be written straight through and
// checked once at its end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace fathom {

/// An inclusive range.
struct IntRange {
  int64_t min = 0;
  int64_t max = 0;
};

class ConfigReader {
 public:
  /// `where` prefixes keys in messages ("config.json: text_config."). `object` and `error` must outlive this.
  ConfigReader(const Json& object, std::string where, std::optional<Error>& error)
      : object_(object), where_(std::move(where)), error_(error) {}

  /// Whether the key is there with a value other than null.
  bool has(std::string_view key) const { return find(key) != nullptr; }

  int64_t integer(std::string_view key, IntRange range);
  int64_t integer_or(std::string_view key, int64_t fallback, IntRange range);
  /// A finite number with above < number <= max.
  double number_above(std::string_view key, double above, double max);
  double number_from(std::string_view key, double min, double max);
  std::vector<int64_t> integers(std::string_view key, size_t max_count, IntRange range);
  std::string string(std::string_view key);

  /// If the key is there, its value must be this one.
  void only(std::string_view key, const Json& value, std::string_view rule);

  /// A nested object, or null (an error if the key holds something else).
  const Json* object(std::string_view key);

  template <class... Args>
  void refuse(std::string_view key, fmt::format_string<Args...> format, Args&&... args) {
    note(ErrorCode::invalid_argument, key, fmt::format(format, std::forward<Args>(args)...));
  }
  bool failed() const { return error_.has_value(); }

 private:
  const Json* find(std::string_view key) const;
  const Json* required(std::string_view key);
  bool to_integer(std::string_view key, const Json& value, IntRange range, int64_t& out);
  double number(std::string_view key, std::string_view rule, double min, bool min_allowed, double max);
  void note(ErrorCode code, std::string_view key, std::string_view message);

  const Json& object_;
  std::string where_;
  std::optional<Error>& error_;
};

/// A value for a message: its JSON text, cut when long.
std::string shown(const Json& value);

}  // namespace fathom
