// The JSON header of a safetensors file, read in one pass into compact records (spec 2).
//
// Knows the header's grammar and the names of the stored types; that the byte ranges fit each other and
// the file is checked in safetensors.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

namespace fathom {

/// A type as the header spells it. F4 counts half-bytes: its shape may count values or bytes, which only
/// the byte range tells.
struct StoredType {
  DType dtype = DType::u8;
  bool is_f4 = false;
};

/// "BF16" -> bf16; nothing for a name this reader does not know.
std::optional<StoredType> stored_type(std::string_view name);

struct HeaderTensor {
  uint32_t name_begin = 0;  // into SafetensorsHeader::names
  uint32_t name_length = 0;
  StoredType type;
  Shape shape;         // as written
  uint64_t begin = 0;  // byte range within the data, as written
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::string names;                  // all tensor names, one after the other
  std::vector<HeaderTensor> tensors;  // in the order of the header
  std::vector<std::pair<std::string, std::string>> metadata;

  std::string_view name(const HeaderTensor& tensor) const {
    return std::string_view(names).substr(tensor.name_begin, tensor.name_length);
  }
};

/// The largest header accepted, in bytes: the format's own limit.
constexpr uint64_t max_safetensors_header_bytes = 100'000'000;

/// Parses the JSON text of a header (at most max_safetensors_header_bytes). `what` names the file in
/// messages. Errors: format (not a header), unsupported (a type or rank this reader does not know).
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, std::string_view what);

}  // namespace fathom
