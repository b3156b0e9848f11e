// One token through the released shape: only what the token needs is read from the files.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <regex>
#include <vector>

#include "backend/cpu/cpu_ops.h"
#include "base/threads.h"
#include "model/model.h"

namespace fathom {
namespace {

// Forgets cached pages of the directory's files, so that what is resident later was read by this test.
void forget_cached_pages(const std::filesystem::path& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}

int64_t resident_bytes(const TensorView& view) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(view.data) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(view.data) + static_cast<uintptr_t>(view.bytes());
  std::vector<unsigned char> pages((end - begin + page - 1) / page);
  EXPECT_EQ(::mincore(reinterpret_cast<void*>(begin), end - begin, pages.data()), 0);
  int64_t resident = 0;
  for (unsigned char p : pages) resident += p & 1 ? static_cast<int64_t>(page) : 0;
  return resident;
}

TEST(ReleasedShape, OneTokenReadsWhatItNeeds) {
  forget_cached_pages(FATHOM_RELEASED_SHAPE);
  const auto ops = make_exact_cpu_ops(available_processors());
  const auto model = Model::load(FATHOM_RELEASED_SHAPE, *ops);
  ASSERT_TRUE(model) << model.error().message;
  auto workspace = (*model)->new_workspace(1);
  auto sequence = (*model)->new_sequence();
  ASSERT_TRUE(workspace && sequence);
  const int32_t token = 1000;
  const SequenceRows rows{&*sequence, {&token, 1}, 1};
  const auto logits = (*model)->forward(*workspace, {&rows, 1});
  ASSERT_TRUE(logits) << logits.error().message;
  EXPECT_EQ(logits->rows(), 1);

  // All weights are zero, so that every layer's router ties and takes experts 0 to 5.
  const std::regex other_expert(R"(layers\.\d+\.ffn\.experts\.([6-9]|\d{2,})\..*)");
  const std::regex looked_up(R"(embed\.weight|layers\.\d+\.engram\.embed\..*)");
  constexpr int64_t page = 4096;
  int64_t needed = 0;
  int64_t resident = 0;
  for (const Checkpoint::Entry& entry : (*model)->checkpoint().entries()) {
    const std::string name(entry.tensor->name);
    const int64_t here = resident_bytes(*entry.tensor);
    resident += here;
    // The scales of dense draft weights are small and were read when the checkpoint was opened.
    if (name.starts_with("mtp.") && name.ends_with(".scale") && name.find(".experts.") == std::string::npos)
      continue;
    const bool unused = name.starts_with("mtp.") || name.starts_with("vision.") ||
                        name.starts_with("aligner.") || std::regex_match(name, other_expert);
    if (unused) {
      // Its first and last page may be shared with a neighbour.
      EXPECT_LE(here, 2 * page) << name;
    } else if (std::regex_match(name, looked_up)) {
      EXPECT_LE(here, 64 * page) << name;  // 24 rows of a table, 3 pages each with neighbours
    } else {
      needed += entry.tensor->bytes();
    }
  }
  // 12.8 GB, and no more than a page at each end of each of the tensors.
  EXPECT_NEAR(static_cast<double>(needed) / 1e9, 12.8, 0.3);
  EXPECT_LE(resident, needed + 2 * page * static_cast<int64_t>((*model)->checkpoint().entries().size()));
}

}  // namespace
}  // namespace fathom
