#include "base/direct_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace fathom {
namespace {

// Some file systems take the flag and refuse the read.
bool reads_directly(int descriptor) {
  alignas(DirectFile::alignment) std::array<std::byte, DirectFile::alignment> block;
  ssize_t n;
  do {
    n = ::pread(descriptor, block.data(), block.size(), 0);
  } while (n < 0 && errno == EINTR);
  return n >= 0 || errno != EINVAL;
}

}  // namespace

Result<std::shared_ptr<const DirectFile>> DirectFile::open(const std::filesystem::path& path, Mode mode) {
  constexpr int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // a FIFO must not hang the open
  int descriptor = -1;
  if (mode == Mode::direct) {
    descriptor = ::open(path.c_str(), flags | O_DIRECT);
    if (descriptor >= 0 && !reads_directly(descriptor)) {
      ::close(descriptor);
      descriptor = -1;
    }
  }
  if (descriptor < 0) {
    mode = Mode::buffered;
    descriptor = ::open(path.c_str(), flags);
  }
  if (descriptor < 0) {
    const int error = errno;
    return fail(error == ENOENT ? ErrorCode::not_found : ErrorCode::io, "{}: {}", path.string(),
                std::strerror(error));
  }
  std::shared_ptr<const DirectFile> file(new DirectFile(path, descriptor, mode));
  struct stat info {};
  if (::fstat(descriptor, &info) != 0)
    return fail(ErrorCode::io, "{}: {}", path.string(), std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return fail(ErrorCode::format, "{}: expected a regular file", path.string());
  return file;
}

DirectFile::~DirectFile() { ::close(descriptor_); }

}  // namespace fathom
