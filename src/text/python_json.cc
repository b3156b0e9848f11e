#include "text/python_json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <iterator>

#include "base/check.h"

namespace fathom {
namespace {

// Python writes the shortest digits that read back to the same double, with an exponent only below 1e-4 and
// from 1e16 on; at least two digits of exponent; ".0" when there is no point otherwise.
void append_float(std::string& out, double value) {
  FATHOM_CHECK(std::isfinite(value));  // JSON text has no other
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, std::end(buffer), value, std::chars_format::scientific);
  FATHOM_CHECK(error == std::errc());
  std::string_view text(buffer, static_cast<size_t>(end - buffer));  // [-]d[.ddd]e+-dd
  if (text.front() == '-') {
    out += '-';
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  std::string digits(text.substr(0, 1));
  if (e > 1) digits += text.substr(2, e - 2);
  int exponent = 0;
  const char* first = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(first, text.data() + text.size(), exponent);

  const int num_digits = static_cast<int>(digits.size());
  const int point = exponent + 1;  // digits before the decimal point
  if (point <= -4 || point > 16) {
    out += digits[0];
    if (num_digits > 1) out.append(".").append(digits, 1);
    fmt::format_to(std::back_inserter(out), "e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  } else if (point <= 0) {
    out.append("0.").append(static_cast<size_t>(-point), '0').append(digits);
  } else if (point >= num_digits) {
    out.append(digits).append(static_cast<size_t>(point - num_digits), '0').append(".0");
  } else {
    out.append(digits, 0, static_cast<size_t>(point)).append(".").append(digits, static_cast<size_t>(point));
  }
}

void append_value(std::string& out, const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      out += "null";
      return;
    case Json::value_t::boolean:
      out += value.get<bool>() ? "true" : "false";
      return;
    case Json::value_t::number_integer:
      fmt::format_to(std::back_inserter(out), "{}", value.get<int64_t>());
      return;
    case Json::value_t::number_unsigned:
      fmt::format_to(std::back_inserter(out), "{}", value.get<uint64_t>());
      return;
    case Json::value_t::number_float:
      append_float(out, value.get<double>());
      return;
    case Json::value_t::string:
      append_json_string(out, value.get_ref<const std::string&>());
      return;
    case Json::value_t::binary:
      out += big_integer_text(value);
      return;
    case Json::value_t::array: {
      const char* separator = "[";
      for (const Json& item : value) {
        out += separator;
        append_value(out, item);
        separator = ", ";
      }
      out += value.empty() ? "[]" : "]";
      return;
    }
    case Json::value_t::object: {
      const char* separator = "{";
      for (const auto& [key, item] : value.get_ref<const Json::object_t&>()) {
        out += separator;
        append_json_string(out, key);
        out += ": ";
        append_value(out, item);
        separator = ", ";
      }
      out += value.empty() ? "{}" : "}";
      return;
    }
    case Json::value_t::discarded:
      break;
  }
  FATHOM_CHECK(!"a discarded value is no JSON");
}

}  // namespace

std::string python_json(const Json& value) {
  std::string out;
  append_value(out, value);
  return out;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  append_json_escaped(out, text);
  out += '"';
}

void append_json_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\b':
        out += "\\b";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20)
          fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
        else
          out += c;
    }
  }
}

}  // namespace fathom
