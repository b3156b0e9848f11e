#include "checkpoint/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "checkpoint/problems.h"

namespace fathom {
namespace {

// A file under construction beside its final place; removed unless committed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& target) : target_(target) {}
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  Status create() {
    for (int attempt = 0; attempt < 100; ++attempt) {
      std::filesystem::path candidate = target_;
      candidate += fmt::format(".{}-{}.partial", ::getpid(), attempt);
      fd_ = ::open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd_ >= 0) {
        path_ = std::move(candidate);
        return {};
      }
      if (errno != EEXIST) break;
    }
    return failure();
  }

  Status write(const char* data, size_t size) {
    while (size > 0) {
      const ssize_t n = ::write(fd_, data, size);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failure();
      data += n;
      size -= static_cast<size_t>(n);
    }
    return {};
  }

  Status commit() {
    const int closed = ::close(fd_);
    fd_ = -1;
    if (closed != 0 || std::rename(path_.c_str(), target_.c_str()) != 0) return failure();
    path_.clear();
    return {};
  }

 private:
  tl::unexpected<Error> failure() const {
    return fail(ErrorCode::io, "{}: cannot write: {}", target_.string(), std::strerror(errno));
  }

  std::filesystem::path target_;
  std::filesystem::path path_;
  int fd_ = -1;
};

Status check_names(std::span<const TensorView> tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorView& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty() || names[i] == "__metadata__" || names[i].find('\0') != std::string_view::npos ||
        (i > 0 && names[i] == names[i - 1]))
      return fail(ErrorCode::invalid_argument, "tensor name \"{}\": empty, reserved or used twice",
                  printable(names[i]));
  }
  return {};
}

}  // namespace

Result<std::string> safetensors_header(std::span<const TensorView> tensors,
                                       SafetensorsMetadata metadata) try {
  FATHOM_TRY(check_names(tensors));
  const auto quoted = [](std::string_view text) { return nlohmann::json(text).dump(); };
  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [name, value] : metadata)
      json += fmt::format("{}{}:{}", json.back() == '{' ? "" : ",", quoted(name), quoted(value));
    json += "}";
  }
  int64_t offset = 0;
  for (const TensorView& tensor : tensors) {
    const std::string_view type = tensor.dtype == DType::e2m1x2 ? "I8" : dtype_name(tensor.dtype);
    std::string dims;
    for (int i = 0; i < tensor.shape.rank(); ++i) dims += fmt::format("{}{}", i ? "," : "", tensor.shape[i]);
    json += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        json.size() > 1 ? "," : "", quoted(tensor.name), type, dims, offset,
                        offset + tensor.bytes());
    offset += tensor.bytes();
  }
  json += "}";
  json.append((8 - json.size() % 8) % 8, ' ');
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>((json.size() >> (8 * i)) & 0xFF);
  return bytes + json;
} catch (const nlohmann::json::exception&) {
  return fail(ErrorCode::invalid_argument, "a tensor name or metadata string is not UTF-8");
}

namespace {

// Where a write to `path` goes: behind its links. Only a regular file may be replaced.
Result<std::filesystem::path> write_target(const std::filesystem::path& path) {
  if (path.filename().empty())
    return fail(ErrorCode::io, "cannot write: expected the name of a file, found '{}'", path.string());
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    if (!std::filesystem::is_symlink(std::filesystem::symlink_status(path, error))) return path;
    return fail(ErrorCode::io, "{}: cannot write: a link that leads nowhere", path.string());
  }
  if (status.type() != std::filesystem::file_type::regular)
    return fail(ErrorCode::io, "{}: cannot write: expected a regular file or a new one", path.string());
  std::filesystem::path target = std::filesystem::canonical(path, error);
  if (error) return fail(ErrorCode::io, "{}: cannot write: {}", path.string(), error.message());
  return target;
}

}  // namespace

Status write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                         SafetensorsMetadata metadata) {
  FATHOM_ASSIGN(const std::string header, safetensors_header(tensors, metadata));
  FATHOM_ASSIGN(const std::filesystem::path target, write_target(path));
  TemporaryFile file(target);
  FATHOM_TRY(file.create());
  FATHOM_TRY(file.write(header.data(), header.size()));
  for (const TensorView& tensor : tensors)
    FATHOM_TRY(file.write(reinterpret_cast<const char*>(tensor.data), static_cast<size_t>(tensor.bytes())));
  return file.commit();
}

Status check_writable(const std::filesystem::path& path) {
  FATHOM_ASSIGN(const std::filesystem::path target, write_target(path));
  return TemporaryFile(target).create();
}

}  // namespace fathom
