// One safetensors file, mapped read-only: typed views of its tensors (spec 2, "Safetensors reader").
//
// The file is treated as hostile: when open() succeeds, every view lies inside the file, no two overlap,
// and shape times type is the length of the range. Nothing is known here about what tensors mean.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "tensor/view.h"

namespace fathom {

class SafetensorsFile {
 public:
  /// Maps the file and reads its header; the data is not touched and is advised for random access
  /// (page_advice.h). Errors name the path: not_found, io, format (damaged or truncated), unsupported
  /// (an unknown dtype, more than four dimensions).
  static Result<SafetensorsFile> open(const std::filesystem::path& path);

  /// The same of a whole file in memory, which must outlive the result. `what` names it in messages.
  static Result<SafetensorsFile> parse(std::span<const std::byte> file, std::string_view what);

  SafetensorsFile(SafetensorsFile&&) = default;
  SafetensorsFile& operator=(SafetensorsFile&&) = default;
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  /// All tensors, ascending by name (bytewise); names are unique. Views and names live as long as this
  /// object, wherever it is moved. F4 tensors come as e2m1x2 with the shape in bytes, whichever way
  /// the file counts; packed FP4 spelled I8 or U8 stays i8 or u8 here.
  std::span<const TensorView> entries() const { return tensors_; }

  std::optional<TensorView> find(std::string_view name) const;

  /// The string pairs of __metadata__, in the order of the file.
  std::span<const std::pair<std::string, std::string>> metadata() const { return metadata_; }

  /// Bytes of all tensors together.
  uint64_t data_bytes() const { return data_bytes_; }

  /// Where a tensor of this file (one of entries(), or a part of its bytes) begins in it, in bytes.
  uint64_t offset_of(const TensorView& tensor) const {
    return static_cast<uint64_t>(tensor.data - file_begin_);
  }

 private:
  SafetensorsFile() = default;

  std::shared_ptr<const MappedFile> mapping_;  // none when parsed from memory
  std::vector<char> names_;                    // what the views' names point into
  std::vector<TensorView> tensors_;
  std::vector<std::pair<std::string, std::string>> metadata_;
  uint64_t data_bytes_ = 0;
  const std::byte* file_begin_ = nullptr;
};

}  // namespace fathom
