#include "bench/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "base/size_text.h"
#include "bench/team.h"

namespace fathom::bench {
namespace {

constexpr int64_t block = 4096;
constexpr int64_t large = int64_t{4} << 20;
constexpr int sequential_readers = 4;
constexpr int random_readers = 32;
constexpr int64_t sequential_bytes = int64_t{128} << 20;  // of one sample
constexpr int reads_per_reader = 32;                      // random ones of one sample
constexpr int64_t min_bytes = int64_t{16} << 20;

struct FileHandle {
  int fd = -1;
  int64_t bytes = 0;
  FileHandle() = default;
  FileHandle(FileHandle&& other) noexcept : fd(std::exchange(other.fd, -1)), bytes(other.bytes) {}
  FileHandle& operator=(FileHandle&&) = delete;
  ~FileHandle() {
    if (fd >= 0) ::close(fd);
  }
};

Result<std::filesystem::path> find_file(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return path;
  std::filesystem::path largest;
  uintmax_t size = 0;
  constexpr auto options = std::filesystem::directory_options::skip_permission_denied;
  for (std::filesystem::recursive_directory_iterator it(path, options, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code ignored;
    if (!it->is_regular_file(ignored)) continue;
    const uintmax_t bytes = it->file_size(ignored);
    if (!ignored && bytes > size) {
      size = bytes;
      largest = it->path();
    }
  }
  if (error) return fail(ErrorCode::io, "{}: {}", path.string(), error.message());
  if (largest.empty()) return fail(ErrorCode::not_found, "{}: no file to read in it", path.string());
  return largest;
}

std::string_view type_name(std::filesystem::file_type type) {
  switch (type) {
    case std::filesystem::file_type::fifo:
      return "a pipe";
    case std::filesystem::file_type::character:
      return "a character device";
    case std::filesystem::file_type::block:
      return "a block device";
    case std::filesystem::file_type::socket:
      return "a socket";
    default:
      return "something else";
  }
}

Result<FileHandle> open_direct(const std::filesystem::path& path) {
  // Asked before it is opened, too: opening a pipe waits for its other end.
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (error) return fail(ErrorCode::io, "{}: {}", path.string(), error.message());
  if (type != std::filesystem::file_type::regular)
    return fail(ErrorCode::unsupported, "{}: expected a regular file, found {}", path.string(),
                type_name(type));
  FileHandle file;
  file.fd = ::open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC | O_NONBLOCK);
  if (file.fd < 0 && errno == EINVAL)
    return fail(ErrorCode::unsupported,
                "{}: expected a regular file on a disk, found one that cannot be read past the page cache",
                path.string());
  if (file.fd < 0) return fail(ErrorCode::io, "{}: {}", path.string(), std::strerror(errno));
  struct stat info {};
  if (::fstat(file.fd, &info) != 0) return fail(ErrorCode::io, "{}: {}", path.string(), std::strerror(errno));
  file.bytes = info.st_size;
  if (!S_ISREG(info.st_mode) || file.bytes < min_bytes)
    return fail(
        ErrorCode::unsupported,
        "{}: expected a file of at least {} MiB to read from, found one of {}; another one can be named",
        path.string(), min_bytes >> 20, size_text(file.bytes));
  // Holes are never read from the disk.
  if (info.st_blocks * 512 < file.bytes / 10 * 9)
    return fail(ErrorCode::unsupported, "{}: expected a file that is all on the disk, found one with holes",
                path.string());
  return file;
}

struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};
using AlignedBytes = std::unique_ptr<void, FreeDeleter>;

// One sample: `readers` threads, each doing reads of `size` at the offsets that `offset_of` gives.
Result<double> read_at(const FileHandle& file, const std::filesystem::path& path, int readers, int reads,
                       int64_t size, const std::function<int64_t(int reader, int read)>& offset_of) {
  std::vector<AlignedBytes> buffers;
  for (int i = 0; i < readers; ++i) {
    buffers.emplace_back(std::aligned_alloc(block, static_cast<size_t>(size)));
    if (buffers.back() == nullptr) return fail(ErrorCode::out_of_memory, "cannot allocate {} bytes", size);
  }
  std::atomic<int> problem{0};
  const double seconds = run_together(readers, [&](int reader) {
    for (int i = 0; i < reads; ++i) {
      const ssize_t got = ::pread(file.fd, buffers[static_cast<size_t>(reader)].get(),
                                  static_cast<size_t>(size), offset_of(reader, i));
      if (got != size) problem = got < 0 ? errno : EIO;  // cut short meanwhile
    }
  });
  if (problem != 0) return fail(ErrorCode::io, "{}: {}", path.string(), std::strerror(problem));
  return seconds;
}

}  // namespace

Result<std::filesystem::path> find_disk_file(const std::filesystem::path& path) {
  FATHOM_ASSIGN(const std::filesystem::path file, find_file(path));
  FATHOM_TRY(open_direct(file));
  return file;
}

Result<DiskLimits> measure_disk(QuietGate& gate, const Effort& effort, const std::filesystem::path& path) {
  DiskLimits out;
  FATHOM_ASSIGN(out.file, find_disk_file(path));
  FATHOM_ASSIGN(const FileHandle file, open_direct(out.file));

  const int64_t piece = std::min(sequential_bytes, file.bytes / large * large);
  const int64_t reads = std::max<int64_t>(piece / large / sequential_readers, 1);
  const int64_t sample_bytes = reads * large * sequential_readers;
  const int64_t pieces = std::max<int64_t>(file.bytes / sample_bytes, 1);
  int64_t at = 0;
  FATHOM_ASSIGN(const Summary sequential, measure(gate, effort, [&] {
                  const int64_t begin = at++ % pieces * sample_bytes;
                  return read_at(file, out.file, sequential_readers, static_cast<int>(reads), large,
                                 [&](int reader, int i) {
                                   return begin + (int64_t{i} * sequential_readers + reader) * large;
                                 });
                }));
  out.sequential = rate_of(sequential, static_cast<double>(sample_bytes));

  std::mt19937_64 random(1);
  std::vector<int64_t> offsets(static_cast<size_t>(random_readers * reads_per_reader));
  std::uniform_int_distribution<int64_t> any_block(0, file.bytes / block - 1);
  FATHOM_ASSIGN(const Summary scattered, measure(gate, effort, [&] {
                  for (int64_t& offset : offsets) offset = any_block(random) * block;
                  return read_at(file, out.file, random_readers, reads_per_reader, block,
                                 [&](int reader, int i) {
                                   return offsets[static_cast<size_t>(reader * reads_per_reader + i)];
                                 });
                }));
  out.random = rate_of(scattered, static_cast<double>(offsets.size()));
  return out;
}

}  // namespace fathom::bench
