// Reading the fields of a JSON object from outside, with messages that name the field and what was found.
//
// Knows nothing of what the fields mean.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace fathom {

/// A value for a message: short values as they are, long ones and containers by kind.
std::string describe(const Json& value);

/// One JSON object and its path ("tokenizer.json: model"). Refers to the value; must not outlive it.
class JsonFields {
 public:
  /// Errors: format, where the value is not an object.
  static Result<JsonFields> of(const Json& value, std::string path);

  const std::string& path() const { return path_; }
  std::string path_of(std::string_view key) const { return path_ + "." + std::string(key); }

  /// The value, or null where the key is absent.
  const Json* find(std::string_view key) const;

  /// The value of a key that must be there. Errors: format.
  Result<const Json*> required(std::string_view key) const;
  Result<std::string> string(std::string_view key) const;
  /// `fallback` is the value of an absent key; without one the key must be there.
  Result<bool> boolean(std::string_view key, std::optional<bool> fallback = std::nullopt) const;

  /// Refuses, as unsupported, a key with any value but null ...
  Status must_be_null(std::string_view key) const;
  /// ... a key with any value but null and `allowed` ...
  Status must_be(std::string_view key, const Json& allowed) const;
  /// ... a key that is missing or has another value than `value` ...
  Status must_equal(std::string_view key, const Json& value) const;
  /// ... and any key that is not listed, unless it is null or false and so asks for nothing.
  Status only(std::initializer_list<std::string_view> keys) const;

 private:
  JsonFields(const Json& object, std::string path) : object_(&object), path_(std::move(path)) {}

  const Json* object_;
  std::string path_;
};

}  // namespace fathom
