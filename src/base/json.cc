#include "base/json.h"

#include <string>
#include <unordered_set>
#include <vector>

namespace fathom {
namespace {

// Builds the document and watches what nlohmann's own builder does not: depth and duplicate keys.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit StrictBuilder(int max_depth) : max_depth_(max_depth) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool v) override { return add(v); }
  bool number_integer(number_integer_t v) override { return add(v); }
  bool number_unsigned(number_unsigned_t v) override { return add(v); }
  bool number_float(number_float_t v, const string_t&) override { return add(v); }
  bool string(string_t& v) override { return add(std::move(v)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) return refuse("duplicate key \"" + name + "\"");
    // Appended to the vector below ordered_map, whose own insertion looks through all keys each time.
    Json::object_t::Container& members = stack_.back()->get_ref<Json::object_t&>();
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
    if (static_cast<int>(stack_.size()) >= max_depth_)
      return refuse("nested deeper than " + std::to_string(max_depth_) + " levels");
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

  int max_depth_;
  Json root_;
  Json* slot_ = nullptr;
  std::vector<Json*> stack_;
  std::vector<std::unordered_set<std::string>> keys_;
  std::string error_;
};

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  // The lexer takes a zero byte for the end of its input and would hide what follows it.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos)
    return fail(ErrorCode::format, "{}: a zero byte at position {}, which no JSON text has", what, zero);
  StrictBuilder builder(limits.max_depth);
  if (!Json::sax_parse(text.begin(), text.end(), &builder))
    return fail(ErrorCode::format, "{}: {}", what, builder.error());
  return builder.take();
}

}  // namespace fathom
