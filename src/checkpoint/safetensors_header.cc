#include "checkpoint/safetensors_header.h"

#include <array>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>

#include "checkpoint/problems.h"

namespace fathom {
namespace {

struct NamedType {
  std::string_view name;
  StoredType type;
};

constexpr std::array<NamedType, 16> named_types{{{"F64", {DType::f64, false}},
                                                 {"F32", {DType::f32, false}},
                                                 {"F16", {DType::f16, false}},
                                                 {"BF16", {DType::bf16, false}},
                                                 {"F8_E4M3", {DType::e4m3, false}},
                                                 {"F8_E8M0", {DType::e8m0, false}},
                                                 {"F4", {DType::e2m1x2, true}},
                                                 {"I64", {DType::i64, false}},
                                                 {"U64", {DType::u64, false}},
                                                 {"I32", {DType::i32, false}},
                                                 {"U32", {DType::u32, false}},
                                                 {"I16", {DType::i16, false}},
                                                 {"U16", {DType::u16, false}},
                                                 {"I8", {DType::i8, false}},
                                                 {"U8", {DType::u8, false}},
                                                 {"BOOL", {DType::boolean, false}}}};

std::string known_types() {
  std::string list;
  for (const NamedType& entry : named_types) list += fmt::format("{}{}", list.empty() ? "" : " ", entry.name);
  return list;
}

// Follows {"name": {"dtype": .., "shape": [..], "data_offsets": [..]}, "__metadata__": {..}} and refuses
// everything else where it stands, which also bounds the depth at three.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(std::string_view what) : what_(what) {}

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t& text) override {
    return unexpected("the number " + printable(text, 40));
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) return add_dim(value);
    if (place_ == Place::offsets) return add_offset(value);
    return unexpected("a number");
  }

  bool string(string_t& value) override {
    if (place_ == Place::metadata) {
      header_.metadata.back().second = std::move(value);
      return true;
    }
    if (place_ != Place::tensor || field_ != Field::dtype) return unexpected("a string");
    const std::optional<StoredType> type = stored_type(value);
    if (!type)
      return refuse(ErrorCode::unsupported, fmt::format("unknown dtype \"{}\" (this reader knows {})",
                                                        printable(value, 40), known_types()));
    current_.type = *type;
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::start) {
      place_ = Place::top;
      return true;
    }
    if (place_ == Place::top) {
      place_ = in_metadata_ ? Place::metadata : Place::tensor;
      return true;
    }
    return unexpected("an object");
  }

  bool key(string_t& name) override {
    if (place_ == Place::top) return begin_member(name);
    if (place_ == Place::metadata) {
      header_.metadata.emplace_back(std::move(name), std::string());
      return true;
    }
    if (name == "dtype") return begin_field(Field::dtype);
    if (name == "shape") return begin_field(Field::shape);
    if (name == "data_offsets") return begin_field(Field::offsets);
    return refuse(ErrorCode::format, fmt::format("unknown field \"{}\"", printable(name, 40)));
  }

  bool end_object() override {
    if (place_ == Place::tensor) {
      if (seen_ != all_fields) return refuse(ErrorCode::format, "dtype, shape or data_offsets is missing");
      if (num_offsets_ != 2) return refuse(ErrorCode::format, "data_offsets must hold two numbers");
      header_.tensors.push_back(current_);
    }
    place_ = place_ == Place::top ? Place::done : Place::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::tensor && field_ == Field::shape)
      place_ = Place::shape;
    else if (place_ == Place::tensor && field_ == Field::offsets)
      place_ = Place::offsets;
    else
      return unexpected("an array");
    return true;
  }

  bool end_array() override {
    place_ = Place::tensor;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    if (!error_)
      error_ = Error{ErrorCode::format,
                     fmt::format("{}: the header is not valid JSON (at its byte {})", what_, position)};
    return false;
  }

  std::optional<Error>& error() { return error_; }
  SafetensorsHeader take() { return std::move(header_); }

 private:
  enum class Place { start, top, tensor, shape, offsets, metadata, done };
  enum class Field : uint8_t { none = 0, dtype = 1, shape = 2, offsets = 4 };
  static constexpr uint8_t all_fields = 7;

  bool refuse(ErrorCode code, const std::string& message) {
    const bool in_tensor = place_ != Place::start && place_ != Place::top && place_ != Place::metadata;
    const std::string where = in_tensor ? fmt::format("tensor \"{}\": ", printable(header_.name(current_)))
                                        : std::string("header: ");
    error_ = Error{code, fmt::format("{}: {}{}", what_, where, message)};
    return false;
  }

  bool unexpected(std::string_view found) {
    static constexpr std::array<std::string_view, 7> expected{"an object",
                                                              "an object for a tensor",
                                                              "a value of the field's own kind",
                                                              "a dimension below 2^63",
                                                              "a byte offset",
                                                              "a string in __metadata__",
                                                              "the end"};
    return refuse(ErrorCode::format,
                  fmt::format("expected {}, found {}", expected[static_cast<size_t>(place_)], found));
  }

  bool begin_member(const std::string& name) {
    in_metadata_ = name == "__metadata__";
    if (in_metadata_) {
      if (seen_metadata_) return refuse(ErrorCode::format, "duplicate __metadata__");
      seen_metadata_ = true;
      return true;
    }
    current_ = HeaderTensor{};
    current_.name_begin = static_cast<uint32_t>(header_.names.size());
    current_.name_length = static_cast<uint32_t>(name.size());
    header_.names += name;
    seen_ = 0;
    num_offsets_ = 0;
    field_ = Field::none;
    return true;
  }

  bool begin_field(Field field) {
    if ((seen_ & static_cast<uint8_t>(field)) != 0) return refuse(ErrorCode::format, "a field appears twice");
    seen_ = static_cast<uint8_t>(seen_ | static_cast<uint8_t>(field));
    field_ = field;
    return true;
  }

  bool add_dim(uint64_t dim) {
    if (dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return unexpected(fmt::format("{}", dim));
    if (current_.shape.rank() == Shape::max_rank)
      return refuse(ErrorCode::unsupported, fmt::format("more than {} dimensions", Shape::max_rank));
    current_.shape.push_back(static_cast<int64_t>(dim));
    return true;
  }

  bool add_offset(uint64_t offset) {
    if (num_offsets_ == 2) return refuse(ErrorCode::format, "data_offsets must hold two numbers");
    (num_offsets_++ == 0 ? current_.begin : current_.end) = offset;
    return true;
  }

  std::string_view what_;
  Place place_ = Place::start;
  Field field_ = Field::none;
  bool in_metadata_ = false;
  bool seen_metadata_ = false;
  uint8_t seen_ = 0;
  int num_offsets_ = 0;
  HeaderTensor current_;
  SafetensorsHeader header_;
  std::optional<Error> error_;
};

}  // namespace

std::optional<StoredType> stored_type(std::string_view name) {
  for (const NamedType& entry : named_types)
    if (entry.name == name) return entry.type;
  return std::nullopt;
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, std::string_view what) {
  if (json.empty() || json.front() != '{')
    return fail(ErrorCode::format, "{}: the header does not begin with '{{': not a safetensors file", what);
  // The JSON lexer takes a zero byte for the end of its input and would hide what follows it.
  if (json.find('\0') != std::string_view::npos)
    return fail(ErrorCode::format, "{}: the header holds a zero byte", what);
  try {
    HeaderReader reader(what);
    if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader))
      return fail(
          reader.error().value_or(Error{ErrorCode::format, fmt::format("{}: unreadable header", what)}));
    return reader.take();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, "{}: no memory for a header of {} bytes", what, json.size());
  }
}

}  // namespace fathom
