#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <numeric>

#include "base/page_advice.h"
#include "checkpoint/problems.h"
#include "checkpoint/safetensors_header.h"

namespace fathom {
namespace {

// The JSON text of the header: its length is stated by the file's first eight bytes, little-endian.
Result<std::string_view> header_text(std::span<const std::byte> file, std::string_view what) {
  constexpr size_t length_bytes = 8;
  if (file.size() < length_bytes)
    return fail(ErrorCode::format, "{}: truncated: {} bytes, expected at least {}", what, file.size(),
                length_bytes);
  uint64_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= std::to_integer<uint64_t>(file[i]) << (8 * i);
  if (length > max_safetensors_header_bytes)
    return fail(ErrorCode::format,
                "{}: a header of {} bytes, expected at most {}: not a safetensors file, or damaged", what,
                length, max_safetensors_header_bytes);
  if (length > file.size() - length_bytes)
    return fail(ErrorCode::format, "{}: truncated: a header of {} bytes, the file has {} after its first {}",
                what, length, file.size() - length_bytes, length_bytes);
  return std::string_view(reinterpret_cast<const char*>(file.data()) + length_bytes,
                          static_cast<size_t>(length));
}

// Shape times type, or nothing when the product passes 2^63. Multiplied in the order of Shape::elements,
// so that its unchecked product is safe afterwards.
std::optional<uint64_t> checked_bytes(const Shape& shape, int64_t element_bytes) {
  int64_t product = 1;
  for (int i = 0; i < shape.rank(); ++i)
    if (__builtin_mul_overflow(product, shape[i], &product)) return std::nullopt;
  if (__builtin_mul_overflow(product, element_bytes, &product)) return std::nullopt;
  return static_cast<uint64_t>(product);
}

// A shape that counts FP4 values, as the same in bytes; rows must be whole bytes.
std::optional<Shape> halve_last(const Shape& shape) {
  if (shape.rank() == 0 || shape[shape.rank() - 1] % 2 != 0) return std::nullopt;
  Shape halved;
  for (int i = 0; i < shape.rank(); ++i) halved.push_back(i + 1 < shape.rank() ? shape[i] : shape[i] / 2);
  return halved;
}

// Sets `shape` to the tensor's shape in stored elements, if that agrees with its byte range.
Status check_range(const HeaderTensor& tensor, std::string_view name, std::string_view what, Shape& shape) {
  if (tensor.end < tensor.begin)
    return fail(ErrorCode::format, "{}: tensor \"{}\": data_offsets [{}, {}] run backwards", what,
                printable(name), tensor.begin, tensor.end);
  const uint64_t range = tensor.end - tensor.begin;
  shape = tensor.shape;
  std::optional<uint64_t> bytes = checked_bytes(shape, dtype_bytes(tensor.type.dtype));
  if (tensor.type.is_f4 && bytes && *bytes / 2 == range && *bytes % 2 == 0 && *bytes != range) {
    if (const std::optional<Shape> halved = halve_last(shape)) {
      shape = *halved;
      bytes = range;
    }
  }
  if (!bytes || *bytes != range)
    return fail(
        ErrorCode::format, "{}: tensor \"{}\": {} {} needs {} bytes, its data_offsets [{}, {}] hold {}", what,
        printable(name), tensor.type.is_f4 ? "F4" : dtype_name(tensor.type.dtype), tensor.shape.to_string(),
        bytes ? std::to_string(*bytes) : "more than 2^63", tensor.begin, tensor.end, range);
  return {};
}

// The ranges must follow each other without overlap or gap from 0 to the end of the file.
Status check_layout(const SafetensorsHeader& header, uint64_t data_bytes, std::string_view what) {
  std::vector<uint32_t> order(header.tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    const HeaderTensor &x = header.tensors[a], &y = header.tensors[b];
    return x.begin != y.begin ? x.begin < y.begin : x.end < y.end;
  });
  uint64_t reached = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const HeaderTensor& tensor = header.tensors[order[i]];
    if (tensor.begin < reached)
      return fail(ErrorCode::format, "{}: tensors \"{}\" and \"{}\" overlap at byte {} of the data", what,
                  printable(header.name(header.tensors[order[i - 1]])), printable(header.name(tensor)),
                  tensor.begin);
    if (tensor.begin > reached)
      return fail(ErrorCode::format, "{}: {} bytes before tensor \"{}\" belong to no tensor", what,
                  tensor.begin - reached, printable(header.name(tensor)));
    reached = tensor.end;
  }
  if (reached > data_bytes)
    return fail(ErrorCode::format, "{}: truncated: the header describes {} bytes of data, the file has {}",
                what, reached, data_bytes);
  if (reached < data_bytes)
    return fail(ErrorCode::format, "{}: {} bytes after the last tensor belong to no tensor", what,
                data_bytes - reached);
  return {};
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::parse(std::span<const std::byte> file, std::string_view what) try {
  FATHOM_ASSIGN(const std::string_view json, header_text(file, what));
  FATHOM_ASSIGN(SafetensorsHeader header, parse_safetensors_header(json, what));
  const std::span<const std::byte> data = file.subspan(8 + json.size());

  SafetensorsFile result;
  result.names_.assign(header.names.begin(), header.names.end());
  result.tensors_.reserve(header.tensors.size());
  for (const HeaderTensor& tensor : header.tensors) {
    TensorView view{nullptr, tensor.type.dtype, {}, {}};
    FATHOM_TRY(check_range(tensor, header.name(tensor), what, view.shape));
    if (tensor.name_length > 0) view.name = {result.names_.data() + tensor.name_begin, tensor.name_length};
    result.tensors_.push_back(view);
  }
  FATHOM_TRY(check_layout(header, data.size(), what));
  for (size_t i = 0; i < header.tensors.size(); ++i)
    result.tensors_[i].data = data.data() + header.tensors[i].begin;

  const auto by_name = [](const TensorView& a, const TensorView& b) { return a.name < b.name; };
  std::sort(result.tensors_.begin(), result.tensors_.end(), by_name);
  const auto same = [](const TensorView& a, const TensorView& b) { return a.name == b.name; };
  if (const auto twin = std::adjacent_find(result.tensors_.begin(), result.tensors_.end(), same);
      twin != result.tensors_.end())
    return fail(ErrorCode::format, "{}: tensor \"{}\" appears twice", what, printable(twin->name));
  result.metadata_ = std::move(header.metadata);
  result.data_bytes_ = data.size();
  result.file_begin_ = file.data();
  return result;
} catch (const std::bad_alloc&) {
  return fail(ErrorCode::out_of_memory, "{}: no memory for its header", what);
}

Result<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path& path) {
  FATHOM_ASSIGN(std::shared_ptr<const MappedFile> mapping, MappedFile::open(path));
  // Before the first touch: read-ahead behind the header would bring in megabytes of every shard.
  advise_random(mapping->bytes());
  FATHOM_ASSIGN(const std::string_view header, header_text(mapping->bytes(), path.string()));
  advise_will_need(std::as_bytes(std::span(header)));
  FATHOM_ASSIGN(SafetensorsFile file, parse(mapping->bytes(), path.string()));
  file.mapping_ = std::move(mapping);
  return file;
}

std::optional<TensorView> SafetensorsFile::find(std::string_view name) const {
  const auto at =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const TensorView& tensor, std::string_view n) { return tensor.name < n; });
  if (at == tensors_.end() || at->name != name) return std::nullopt;
  return *at;
}

}  // namespace fathom
