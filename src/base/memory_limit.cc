#include "base/memory_limit.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/size_text.h"

namespace fathom {
namespace {

using std::filesystem::path;

// Kernel files have no size to read them by.
std::optional<std::string> read_text(const path& file) {
  std::ifstream in(file);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

std::optional<int64_t> number(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return static_cast<int64_t>(std::min(value, uint64_t{std::numeric_limits<int64_t>::max()}));
}

// The number behind `key` at the beginning of a line.
std::optional<int64_t> field(std::string_view text, std::string_view key) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.starts_with(key)) return number(line.substr(key.size()));
    at = end + 1;
  }
  return std::nullopt;
}

std::optional<int64_t> file_number(const path& file) {
  const auto text = read_text(file);
  return text ? number(*text) : std::nullopt;  // "max" is no number: no limit
}

// What a version of control groups calls its files.
struct GroupFiles {
  std::vector<const char*> limits;
  const char* usage;
  std::vector<const char*> reclaimable;  // keys of memory.stat
};
const GroupFiles v1{
    {"memory.limit_in_bytes"}, "memory.usage_in_bytes", {"total_inactive_file ", "total_active_file "}};
const GroupFiles v2{
    {"memory.max", "memory.high"}, "memory.current", {"inactive_file ", "active_file ", "slab_reclaimable "}};

std::optional<MemoryLimit> limit_of(const path& group, const GroupFiles& files) {
  std::optional<int64_t> limit;
  for (const char* name : files.limits)
    if (const auto value = file_number(group / name)) limit = std::min(limit.value_or(*value), *value);
  const auto usage = file_number(group / files.usage);
  if (!limit || !usage) return std::nullopt;
  int64_t used = *usage;
  if (const auto stat = read_text(group / "memory.stat"))
    for (const char* key : files.reclaimable) used -= field(*stat, key).value_or(0);
  const int64_t left = std::max<int64_t>(0, *limit - std::max<int64_t>(0, used));
  return MemoryLimit{left, group.string(), *limit};
}

// A mounted hierarchy of control groups that counts memory.
struct Mount {
  std::string root;   // the group that is mounted
  std::string point;  // where
  bool version_2 = false;
};

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

// Lines of mountinfo: id parent device root point options.. - type source superoptions.
std::vector<Mount> memory_mounts(const std::string& mountinfo) {
  std::vector<Mount> mounts;
  std::istringstream lines(mountinfo);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> w = words(line);
    const auto dash = std::find(w.begin(), w.end(), "-");
    if (w.size() < 6 || w.end() - dash < 4) continue;
    if (dash[1] == "cgroup2") mounts.push_back({w[3], w[4], true});
    if (dash[1] == "cgroup" && ("," + dash[3] + ",").find(",memory,") != std::string::npos)
      mounts.push_back({w[3], w[4], false});
  }
  return mounts;
}

// Lines of /proc/self/cgroup: number:controllers:path; version 2 has no controllers there.
std::optional<std::string> own_group(const std::string& groups, bool version_2) {
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (version_2 ? controllers.empty() : ("," + controllers + ",").find(",memory,") != std::string::npos)
      return line.substr(second + 1);
  }
  return std::nullopt;
}

// Every limit of this process's groups, innermost first.
void visit_group_limits(const path& root, const std::function<void(const MemoryLimit&)>& visit) {
  const auto mountinfo = read_text(root / "proc/self/mountinfo");
  const auto groups = read_text(root / "proc/self/cgroup");
  if (!mountinfo || !groups) return;
  for (const Mount& mount : memory_mounts(*mountinfo)) {
    auto group = own_group(*groups, mount.version_2);
    if (!group) continue;
    // Inside a container the mounted group may be the process's own, or an ancestor.
    if (mount.root != "/") group = group->starts_with(mount.root) ? group->substr(mount.root.size()) : "";
    if (group->find("..") != std::string::npos) group = "";
    const path top = root / path(mount.point).relative_path();
    path at = (top / path(*group).relative_path()).lexically_normal();
    for (;; at = at.parent_path()) {
      if (!at.has_filename()) at = at.parent_path();
      if (const auto limit = limit_of(at, mount.version_2 ? v2 : v1)) visit(*limit);
      if (at == top.lexically_normal() || !at.has_relative_path()) break;
    }
  }
}

MemoryLimit machine_memory(const path& root) {
  const path meminfo = root / "proc/meminfo";
  const auto text = read_text(meminfo);
  if (!text) return {};
  const auto available = field(*text, "MemAvailable:");
  if (!available) return {};
  const int64_t total = field(*text, "MemTotal:").value_or(*available);
  return {*available * 1024, meminfo.string(), total * 1024};
}

// Of the machine and its groups, the limit with the smallest `which`.
MemoryLimit least_limit(const path& root, int64_t MemoryLimit::*which) {
  MemoryLimit least = machine_memory(root);
  if (least.source.empty()) return least;
  visit_group_limits(root, [&](const MemoryLimit& limit) {
    if (limit.*which < least.*which) least = limit;
  });
  return least;
}

}  // namespace

MemoryLimit available_memory(const path& root) { return least_limit(root, &MemoryLimit::bytes); }
MemoryLimit total_memory(const path& root) { return least_limit(root, &MemoryLimit::total); }

Result<int64_t> measuring_bytes(int64_t wanted, int64_t least, const MemoryLimit& limit) {
  if (limit.source.empty()) return wanted;
  const int64_t bytes = std::min(wanted, limit.bytes / 4);
  if (bytes >= least) return bytes;
  return fail(ErrorCode::out_of_memory,
              "too little memory to measure with: expected {} to be left, found {} ({})",
              size_text(4 * least), size_text(limit.bytes), limit.source);
}

int64_t used_memory(const path& root) {
  const auto text = read_text(root / "proc/self/status");
  if (!text) return 0;
  return (field(*text, "RssAnon:").value_or(0) + field(*text, "RssShmem:").value_or(0)) * 1024;
}

}  // namespace fathom
