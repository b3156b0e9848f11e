// A file to be read past the kernel's cache: what is read once into our own memory needs no second copy.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/result.h"

namespace fathom {

class DirectFile {
 public:
  /// Of offsets, of memory, and of lengths but for the file's end.
  static constexpr uint64_t alignment = 4096;

  /// How to open: `buffered` is for file systems without direct reads, and for tests.
  enum class Mode { direct, buffered };

  /// Opens a regular file. Where the file system refuses direct reads, buffered ones stand in; their pages
  /// are dropped from the kernel's cache after use. Errors name the path: not_found, io, format.
  static Result<std::shared_ptr<const DirectFile>> open(const std::filesystem::path& path,
                                                        Mode mode = Mode::direct);
  ~DirectFile();
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;

  int descriptor() const { return descriptor_; }
  Mode mode() const { return mode_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  DirectFile(std::filesystem::path path, int descriptor, Mode mode)
      : path_(std::move(path)), descriptor_(descriptor), mode_(mode) {}

  std::filesystem::path path_;
  int descriptor_;
  Mode mode_;
};

}  // namespace fathom
