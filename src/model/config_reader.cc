#include "model/config_reader.h"

#include <cmath>

#include "checkpoint/problems.h"

namespace fathom {

std::string shown(const Json& value) {
  // A container may be large: only its kind is named.
  if (value.is_object()) return "an object";
  if (is_big_integer(value)) return printable(big_integer_text(value), 80);
  if (value.is_array() && value.size() > 64) return fmt::format("a list of {}", value.size());
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), 80);
}

const Json* ConfigReader::find(std::string_view key) const {
  for (const auto& [name, value] : object_.get_ref<const Json::object_t&>())
    if (name == key) return value.is_null() ? nullptr : &value;
  return nullptr;
}

void ConfigReader::note(ErrorCode code, std::string_view key, std::string_view message) {
  if (!error_) error_ = Error{code, fmt::format("{}{}: {}", where_, key, message)};
}

const Json* ConfigReader::required(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) note(ErrorCode::invalid_argument, key, "missing, this key is required");
  return value;
}

bool ConfigReader::to_integer(std::string_view key, const Json& value, IntRange range, int64_t& out) {
  if (!value.is_number_integer()) {
    refuse(key, "expected an integer, found {}", shown(value));
    return false;
  }
  // An unsigned value past 2^63 would turn negative in get<int64_t>.
  const bool too_large =
      value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (too_large || value.get<int64_t>() < range.min || value.get<int64_t>() > range.max) {
    refuse(key, "expected an integer from {} to {}, found {}", range.min, range.max, shown(value));
    return false;
  }
  out = value.get<int64_t>();
  return true;
}

int64_t ConfigReader::integer(std::string_view key, IntRange range) {
  int64_t out = range.min;
  if (const Json* value = required(key)) to_integer(key, *value, range, out);
  return out;
}

int64_t ConfigReader::integer_or(std::string_view key, int64_t fallback, IntRange range) {
  return has(key) ? integer(key, range) : fallback;
}

double ConfigReader::number(std::string_view key, std::string_view rule, double min, bool min_allowed,
                            double max) {
  const Json* value = required(key);
  if (value == nullptr) return 1;
  if (!value->is_number()) {
    refuse(key, "expected a number, found {}", shown(*value));
    return 1;
  }
  const double number = value->get<double>();
  if (!std::isfinite(number) || number > max || (min_allowed ? number < min : number <= min)) {
    refuse(key, "expected a number {} {} and at most {}, found {}", rule, min, max, shown(*value));
    return 1;
  }
  return number;
}

double ConfigReader::number_above(std::string_view key, double above, double max) {
  return number(key, "above", above, false, max);
}

double ConfigReader::number_from(std::string_view key, double min, double max) {
  return number(key, "of at least", min, true, max);
}

std::vector<int64_t> ConfigReader::integers(std::string_view key, size_t max_count, IntRange range) {
  const Json* value = required(key);
  if (value == nullptr) return {};
  if (!value->is_array()) {
    refuse(key, "expected a list of integers, found {}", shown(*value));
    return {};
  }
  if (value->size() > max_count) {
    refuse(key, "expected at most {} integers, found {}", max_count, value->size());
    return {};
  }
  std::vector<int64_t> list;
  for (const Json& element : *value) {
    int64_t number = 0;
    if (!to_integer(key, element, range, number)) return {};
    list.push_back(number);
  }
  return list;
}

std::string ConfigReader::string(std::string_view key) {
  const Json* value = required(key);
  if (value == nullptr) return {};
  if (!value->is_string()) {
    refuse(key, "expected a string, found {}", shown(*value));
    return {};
  }
  return value->get<std::string>();
}

void ConfigReader::only(std::string_view key, const Json& value, std::string_view rule) {
  const Json* found = find(key);
  if (found != nullptr && *found != value)
    note(ErrorCode::unsupported, key,
         fmt::format("expected {} ({}), found {}", value.dump(), rule, shown(*found)));
}

const Json* ConfigReader::object(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr || value->is_object()) return value;
  refuse(key, "expected an object, found {}", shown(*value));
  return nullptr;
}

}  // namespace fathom
