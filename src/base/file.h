// Reading small files whole, and mapping large ones read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace fathom {

/// The whole content of a regular file of at most `max_bytes`. Errors name the path: not_found, io, format
/// (too large, or not a regular file).
Result<std::string> read_file(const std::filesystem::path& path, uint64_t max_bytes);

/// A read-only, private mapping of a whole file; unmapped when the last owner goes. Pages stay evictable.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile(std::filesystem::path path, const std::byte* data, size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::filesystem::path path_;
  const std::byte* data_;
  size_t size_;
};

}  // namespace fathom
