#include "base/json.h"

#include <string>
#include <unordered_map>
#include <vector>

#include "base/check.h"

namespace fathom {
namespace {

constexpr Json::binary_t::subtype_type kBigInteger = 1;

// Builds the document and watches what nlohmann's own builder does not: depth and duplicate keys.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit StrictBuilder(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool v) override { return add(v); }
  bool number_integer(number_integer_t v) override { return add(v); }
  bool number_unsigned(number_unsigned_t v) override { return add(v); }
  bool number_float(number_float_t v, const string_t& text) override {
    if (text.find_first_of(".eE") != std::string::npos) return add(v);
    return add(Json::binary({text.begin(), text.end()}, kBigInteger));  // an integer too large for 64 bits
  }
  bool string(string_t& v) override { return add(std::move(v)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    // Appended to the vector below ordered_map, whose own insertion looks through all keys each time.
    Json::object_t::Container& members = stack_.back()->get_ref<Json::object_t&>();
    const auto [seen, is_new] = keys_.back().emplace(name, members.size());
    if (!is_new) {
      if (limits_.duplicate_keys == DuplicateKeys::refuse) return refuse("duplicate key \"" + name + "\"");
      slot_ = &members[seen->second].second;
      return true;
    }
    members.emplace_back(name, nullptr);
    slot_ = &members.back().second;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& e) override {
    std::string text = e.what();  // "[json.exception.parse_error.101] parse error at line ..: ..."
    if (const size_t end = text.find("] "); end != std::string::npos) text.erase(0, end + 2);
    (void)position;
    return refuse(std::move(text));
  }

  const std::string& error() const { return error_; }
  Json take() { return std::move(root_); }

 private:
  bool refuse(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return false;
  }
  template <class T>
  Json* place(T&& value) {
    if (stack_.empty()) {
      root_ = std::forward<T>(value);
      return &root_;
    }
    if (stack_.back()->is_array()) {
      stack_.back()->push_back(std::forward<T>(value));
      return &stack_.back()->back();
    }
    *slot_ = std::forward<T>(value);
    return slot_;
  }
  template <class T>
  bool add(T&& value) {
    place(std::forward<T>(value));
    return true;
  }
  bool open(Json container) {
    if (static_cast<int>(stack_.size()) >= limits_.max_depth)
      return refuse("nested deeper than " + std::to_string(limits_.max_depth) + " levels");
    Json* where = place(std::move(container));
    stack_.push_back(where);
    keys_.emplace_back();
    return true;
  }
  bool close() {
    stack_.pop_back();
    keys_.pop_back();
    return true;
  }

  JsonLimits limits_;
  Json root_;
  Json* slot_ = nullptr;
  std::vector<Json*> stack_;
  std::vector<std::unordered_map<std::string, size_t>> keys_;  // open objects: key -> member
  std::string error_;
};

}  // namespace

bool is_big_integer(const Json& value) {
  return value.is_binary() && value.get_binary().subtype() == kBigInteger;
}

std::string_view big_integer_text(const Json& value) {
  FATHOM_CHECK(is_big_integer(value));
  const Json::binary_t& digits = value.get_binary();
  return {reinterpret_cast<const char*>(digits.data()), digits.size()};
}

Result<Json> parse_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  // The lexer takes a zero byte for the end of its input and would hide what follows it.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos)
    return fail(ErrorCode::format, "{}: a zero byte at position {}, which no JSON text has", what, zero);
  StrictBuilder builder(limits);
  if (!Json::sax_parse(text.begin(), text.end(), &builder))
    return fail(ErrorCode::format, "{}: {}", what, builder.error());
  return builder.take();
}

}  // namespace fathom
