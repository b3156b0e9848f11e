#include "text/json_fields.h"

#include <algorithm>

namespace fathom {

std::string describe(const Json& value) {
  if (value.is_object()) return fmt::format("an object of {} keys", value.size());
  if (value.is_array()) return fmt::format("an array of {} items", value.size());
  constexpr size_t longest = 80;
  if (value.is_string() && value.get_ref<const std::string&>().size() > longest)
    return fmt::format("a string of {} bytes", value.get_ref<const std::string&>().size());
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Result<JsonFields> JsonFields::of(const Json& value, std::string path) {
  if (!value.is_object())
    return fail(ErrorCode::format, "{}: expected an object, found {}", path, describe(value));
  return JsonFields(value, std::move(path));
}

const Json* JsonFields::find(std::string_view key) const {
  for (const auto& [name, value] : object_->get_ref<const Json::object_t&>())
    if (name == key) return &value;
  return nullptr;
}

Result<const Json*> JsonFields::required(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr) return fail(ErrorCode::format, "{}: missing", path_of(key));
  return value;
}

Result<std::string> JsonFields::string(std::string_view key) const {
  FATHOM_ASSIGN(const Json* value, required(key));
  if (!value->is_string())
    return fail(ErrorCode::format, "{}: expected a string, found {}", path_of(key), describe(*value));
  return value->get<std::string>();
}

Result<bool> JsonFields::boolean(std::string_view key, std::optional<bool> fallback) const {
  const Json* value = find(key);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr) return fail(ErrorCode::format, "{}: missing", path_of(key));
  if (!value->is_boolean())
    return fail(ErrorCode::format, "{}: expected true or false, found {}", path_of(key), describe(*value));
  return value->get<bool>();
}

Status JsonFields::must_be_null(std::string_view key) const {
  const Json* value = find(key);
  if (value == nullptr || value->is_null()) return {};
  return fail(ErrorCode::unsupported, "{}: expected null (nothing else is supported), found {}", path_of(key),
              describe(*value));
}

Status JsonFields::must_be(std::string_view key, const Json& allowed) const {
  const Json* value = find(key);
  if (value == nullptr || value->is_null() || *value == allowed) return {};
  return fail(ErrorCode::unsupported, "{}: expected {} (nothing else is supported), found {}", path_of(key),
              describe(allowed), describe(*value));
}

Status JsonFields::must_equal(std::string_view key, const Json& expected) const {
  FATHOM_ASSIGN(const Json* value, required(key));
  if (*value == expected) return {};
  return fail(ErrorCode::unsupported, "{}: expected {} (nothing else is supported), found {}", path_of(key),
              describe(expected), describe(*value));
}

Status JsonFields::only(std::initializer_list<std::string_view> keys) const {
  for (const auto& [name, value] : object_->get_ref<const Json::object_t&>()) {
    if (value.is_null() || value == Json(false)) continue;
    if (std::find(keys.begin(), keys.end(), name) == keys.end())
      return fail(ErrorCode::unsupported, "{}: unknown key, found {}", path_of(describe(Json(name))),
                  describe(value));
  }
  return {};
}

}  // namespace fathom
