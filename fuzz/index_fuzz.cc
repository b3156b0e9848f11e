// A shard index: whatever is accepted names only plain files, is sorted, and means the same as its JSON.
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/check.h"
#include "base/json.h"
#include "checkpoint/shard_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto index = fathom::ShardIndex::parse(text, "fuzz");
  if (!index) {
    FATHOM_CHECK(!index.error().message.empty() && index.error().message.size() < 2000);
    return 0;
  }
  for (const std::string& shard : index->shards()) {
    const std::filesystem::path path(shard);
    FATHOM_CHECK(path.has_filename() && !path.has_parent_path() && shard != ".." &&
                 shard.ends_with(".safetensors"));
  }
  for (size_t i = 1; i < index->entries().size(); ++i)
    FATHOM_CHECK(index->entries()[i - 1].tensor < index->entries()[i].tensor);

  // The general JSON reader sees the same map. It alone refuses duplicate keys outside weight_map.
  const auto json = fathom::parse_json(text, "fuzz");
  if (!json) return 0;
  const auto& map = (*json)["weight_map"];
  FATHOM_CHECK_EQ(map.size(), index->entries().size());
  if (map.size() > 1000) return 0;  // its look-ups are linear
  for (const auto& entry : index->entries())
    FATHOM_CHECK(map.at(std::string(entry.tensor)).get<std::string>() == index->shards()[entry.shard]);
  return 0;
}
