#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace fathom {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string reason(int error) { return std::strerror(error); }

// Opens a regular file and tells its size. O_NONBLOCK so that a FIFO cannot hang the open.
Result<uint64_t> open_regular(const std::filesystem::path& path, int fd) {
  if (fd < 0) {
    const int error = errno;
    return fail(error == ENOENT ? ErrorCode::not_found : ErrorCode::io, "{}: {}", path.string(),
                reason(error));
  }
  struct stat info {};
  if (::fstat(fd, &info) != 0) return fail(ErrorCode::io, "{}: {}", path.string(), reason(errno));
  if (!S_ISREG(info.st_mode)) return fail(ErrorCode::format, "{}: expected a regular file", path.string());
  return static_cast<uint64_t>(info.st_size);
}

}  // namespace

Result<std::string> read_file(const std::filesystem::path& path, uint64_t max_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  FATHOM_ASSIGN(const uint64_t size, open_regular(path, file.get()));
  if (size > max_bytes)
    return fail(ErrorCode::format, "{}: {} bytes, expected at most {}", path.string(), size, max_bytes);
  std::string content(static_cast<size_t>(size), '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::read(file.get(), content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(ErrorCode::io, "{}: {}", path.string(), reason(errno));
    if (n == 0) break;  // shrank while being read
    done += static_cast<size_t>(n);
  }
  content.resize(done);
  return content;
}

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  FATHOM_ASSIGN(const uint64_t size, open_regular(path, file.get()));
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(path, nullptr, 0));
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED)
    return fail(ErrorCode::io, "{}: cannot map {} bytes: {}", path.string(), size, reason(errno));
  return std::shared_ptr<const MappedFile>(
      new MappedFile(path, static_cast<const std::byte*>(data), static_cast<size_t>(size)));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace fathom
