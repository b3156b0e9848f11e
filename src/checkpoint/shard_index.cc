#include "checkpoint/shard_index.h"

#include <algorithm>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>

#include "checkpoint/problems.h"

namespace fathom {
namespace {

constexpr int max_depth = 64;

bool is_shard_name(std::string_view name) {
  constexpr std::string_view suffix = ".safetensors";
  return name.size() > suffix.size() && name.size() <= 255 && name.ends_with(suffix) && name.front() != '.' &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

struct NameRange {
  size_t begin = 0;
  size_t length = 0;
  uint32_t shard = 0;
};

// Reads "weight_map" of the outermost object; skips everything else there.
class IndexReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit IndexReader(std::string_view what) : what_(what) {}

  bool null() override { return scalar("null"); }
  bool boolean(bool) override { return scalar("a boolean"); }
  bool number_integer(number_integer_t) override { return scalar("a number"); }
  bool number_unsigned(number_unsigned_t) override { return scalar("a number"); }
  bool number_float(number_float_t, const string_t&) override { return scalar("a number"); }
  bool binary(binary_t&) override { return scalar("binary data"); }
  bool start_array(std::size_t) override { return open("an array", false); }
  bool end_array() override { return close(); }
  bool start_object(std::size_t) override { return open("an object", true); }
  bool end_object() override { return close(); }

  bool key(string_t& name) override {
    if (depth_ == 1) {
      in_map_ = name == "weight_map";
      if (in_map_ && seen_map_) return refuse("weight_map appears twice");
      seen_map_ = seen_map_ || in_map_;
    } else if (in_map_) {
      current_ = NameRange{names.size(), name.size(), 0};
      names.insert(names.end(), name.begin(), name.end());
    }
    return true;
  }

  bool string(string_t& value) override {
    if (!in_map_ || depth_ != 2) return scalar("a string");
    if (!is_shard_name(value))
      return refuse(
          fmt::format("tensor \"{}\": shard \"{}\", expected a plain file name that ends in .safetensors",
                      printable({names.data() + current_.begin, current_.length}), printable(value)));
    const auto next = static_cast<uint32_t>(shards.size());
    current_.shard = shards.emplace(std::move(value), next).first->second;
    ranges.push_back(current_);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return refuse(fmt::format("not valid JSON (at byte {})", position));
  }

  bool complete() const { return seen_map_; }
  Error error() const {
    return error_.value_or(Error{ErrorCode::format, fmt::format("{}: unreadable", what_)});
  }

  std::vector<char> names;
  std::vector<NameRange> ranges;
  std::map<std::string, uint32_t, std::less<>> shards;  // numbered in the order of appearance

 private:
  bool refuse(std::string_view message) {
    if (!error_) error_ = Error{ErrorCode::format, fmt::format("{}: {}", what_, message)};
    return false;
  }
  bool scalar(std::string_view found) {
    if (depth_ == 0) return refuse(fmt::format("expected an object, found {}", found));
    if (in_map_) return refuse(fmt::format("weight_map: expected file names, found {}", found));
    return true;
  }
  bool open(std::string_view found, bool object) {
    if (depth_ == 0 && !object) return scalar(found);
    if (in_map_ && (depth_ != 1 || !object)) return scalar(found);
    if (depth_ == max_depth) return refuse(fmt::format("nested deeper than {} levels", max_depth));
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    if (depth_ == 1) in_map_ = false;
    return true;
  }

  std::string_view what_;
  int depth_ = 0;
  bool in_map_ = false;
  bool seen_map_ = false;
  NameRange current_;
  std::optional<Error> error_;
};

}  // namespace

Result<ShardIndex> ShardIndex::parse(std::string_view json, std::string_view what) try {
  // The JSON lexer takes a zero byte for the end of its input and would hide what follows it.
  if (json.find('\0') != std::string_view::npos)
    return fail(ErrorCode::format, "{}: holds a zero byte", what);
  IndexReader reader(what);
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader)) return fail(reader.error());
  if (!reader.complete()) return fail(ErrorCode::format, "{}: weight_map is missing", what);

  ShardIndex index;
  std::vector<uint32_t> sorted_number(reader.shards.size());
  for (auto& [name, number] : reader.shards) {
    sorted_number[number] = static_cast<uint32_t>(index.shards_.size());
    index.shards_.push_back(name);
  }
  index.names_ = std::move(reader.names);
  index.entries_.reserve(reader.ranges.size());
  for (const NameRange& range : reader.ranges)
    index.entries_.push_back({{index.names_.data() + range.begin, range.length}, sorted_number[range.shard]});
  std::sort(index.entries_.begin(), index.entries_.end(),
            [](const Entry& a, const Entry& b) { return a.tensor < b.tensor; });
  const auto twin = std::adjacent_find(index.entries_.begin(), index.entries_.end(),
                                       [](const Entry& a, const Entry& b) { return a.tensor == b.tensor; });
  if (twin != index.entries_.end())
    return fail(ErrorCode::format, "{}: tensor \"{}\" appears twice", what, printable(twin->tensor));
  return index;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "{}: no memory for an index of {} bytes", what, json.size());
}

}  // namespace fathom
