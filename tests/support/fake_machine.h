// A machine of files under a directory that stands for "/": what a kernel says about memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "tests/support/checkpoint_builder.h"

namespace fathom::test {

class FakeMachine {
 public:
  const std::filesystem::path& root() const { return root_.path(); }

  FakeMachine& file(const std::string& name, const std::string& content) {
    std::filesystem::create_directories((root_ / name).parent_path());
    write_file(root_ / name, content);
    return *this;
  }
  /// Control groups of version 2; this process is in `group`: "outer/inner".
  FakeMachine& in_group(const std::string& group) {
    file("proc/self/mountinfo",
         "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
         "30 22 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    return file("proc/self/cgroup", "0::/" + group + "\n");
  }
  /// What such a group may use ("max": anything) and does use, in bytes.
  FakeMachine& group(const std::string& name, const std::string& max, int64_t used) {
    file("sys/fs/cgroup/" + name + "/memory.max", max + "\n");
    return file("sys/fs/cgroup/" + name + "/memory.current", std::to_string(used) + "\n");
  }

 private:
  TempDir root_;
};

}  // namespace fathom::test
