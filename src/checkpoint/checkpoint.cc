#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <optional>
#include <system_error>

#include "base/file.h"
#include "base/page_advice.h"
#include "checkpoint/problems.h"
#include "checkpoint/shard_index.h"

namespace fathom {
namespace {

constexpr std::string_view index_name = "model.safetensors.index.json";
constexpr std::string_view single_name = "model.safetensors";

// Nothing when there is no index file.
Result<std::optional<ShardIndex>> read_index(const std::filesystem::path& path) {
  auto text = read_file(path, max_shard_index_bytes);
  if (!text) {
    if (text.error().code == ErrorCode::not_found) return std::nullopt;
    return fail(std::move(text).error());
  }
  FATHOM_ASSIGN(ShardIndex index, ShardIndex::parse(*text, path.string()));
  if (index.shards().empty()) return fail(ErrorCode::format, "{}: weight_map is empty", path.string());
  return std::optional<ShardIndex>(std::move(index));
}

// Walks both lists, which are in the same order.
Status check_against_index(const ShardIndex& index, std::span<const Checkpoint::Entry> stored,
                           const std::filesystem::path& directory) {
  Problems problems;
  size_t i = 0, s = 0;
  while (i < index.entries().size() || s < stored.size()) {
    const bool at_end = s == stored.size();
    const int order = at_end ? -1
                      : i == index.entries().size()
                          ? 1
                          : index.entries()[i].tensor.compare(stored[s].tensor->name);
    if (order < 0) {
      const ShardIndex::Entry& entry = index.entries()[i++];
      problems.add("tensor \"{}\": the index places it in {}, which does not hold it",
                   printable(entry.tensor), index.shards()[entry.shard]);
    } else if (order > 0) {
      const Checkpoint::Entry& entry = stored[s++];
      problems.add("tensor \"{}\": {} holds it, the index does not list it", printable(entry.tensor->name),
                   index.shards()[entry.shard]);
    } else {
      const uint32_t expected = index.entries()[i++].shard, found = stored[s++].shard;
      if (expected != found)
        problems.add("tensor \"{}\": the index places it in {}, it is in {}",
                     printable(stored[s - 1].tensor->name), index.shards()[expected], index.shards()[found]);
    }
  }
  if (problems.empty()) return {};
  return fail(ErrorCode::format, "{}: {}", (directory / index_name).string(), problems.text());
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::filesystem::path& directory) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(directory, ignored))
    return fail(ErrorCode::not_found, "{}: no such directory", directory.string());
  FATHOM_ASSIGN(const std::optional<ShardIndex> index, read_index(directory / index_name));

  Checkpoint result;
  result.directory_ = directory;
  if (index)
    result.names_.assign(index->shards().begin(), index->shards().end());
  else
    result.names_.emplace_back(single_name);

  size_t num_tensors = 0;
  for (const std::string& name : result.names_) {
    auto file = SafetensorsFile::open(directory / name);
    if (!file && file.error().code == ErrorCode::not_found) {
      if (index)
        return fail(ErrorCode::not_found, "{}: missing shard, named by {}", (directory / name).string(),
                    index_name);
      return fail(ErrorCode::not_found, "{}: neither {} nor {} is there", directory.string(), index_name,
                  single_name);
    }
    if (!file) return fail(std::move(file).error());
    num_tensors += file->entries().size();
    result.total_bytes_ += file->data_bytes();
    result.files_.push_back(std::move(*file));
  }

  result.entries_.reserve(num_tensors);
  for (uint32_t shard = 0; shard < result.files_.size(); ++shard)
    for (const TensorView& tensor : result.files_[shard].entries())
      result.entries_.push_back({&tensor, shard});
  std::sort(result.entries_.begin(), result.entries_.end(),
            [](const Entry& a, const Entry& b) { return a.tensor->name < b.tensor->name; });
  for (size_t i = 1; i < result.entries_.size(); ++i) {
    const Entry &a = result.entries_[i - 1], &b = result.entries_[i];
    if (a.tensor->name == b.tensor->name)
      return fail(ErrorCode::format, "{}: tensor \"{}\" is in two shards, {} and {}", directory.string(),
                  printable(a.tensor->name), result.file_of(a), result.file_of(b));
  }
  if (index) FATHOM_TRY(check_against_index(*index, result.entries_, directory));
  return result;
}

const Checkpoint::Entry* Checkpoint::entry_of(std::string_view name) const {
  const auto at =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const Entry& entry, std::string_view n) { return entry.tensor->name < n; });
  return at == entries_.end() || at->tensor->name != name ? nullptr : &*at;
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const Entry* entry = entry_of(name);
  return entry == nullptr ? nullptr : entry->tensor;
}

std::string_view Checkpoint::file_of(std::string_view name) const {
  const Entry* entry = entry_of(name);
  return entry == nullptr ? std::string_view{} : file_of(*entry);
}

std::optional<Checkpoint::Place> Checkpoint::place_of(std::string_view name) const {
  const Entry* entry = entry_of(name);
  if (entry == nullptr) return std::nullopt;
  return Place{entry->shard, files_[entry->shard].offset_of(*entry->tensor),
               static_cast<uint64_t>(entry->tensor->bytes())};
}

void Checkpoint::will_need(const TensorView& tensor) const {
  advise_will_need({tensor.data, static_cast<size_t>(tensor.bytes())});
}

void Checkpoint::will_need(std::span<const std::byte> bytes) const { advise_will_need(bytes); }

}  // namespace fathom
