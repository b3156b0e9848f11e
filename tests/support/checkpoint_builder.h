// Checkpoints made by hand, sound or broken in a chosen way, for tests.
//
// Written without the code under test, so that a fault in the writer cannot hide one in the reader.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace fathom::test {

/// A directory of its own, removed at the end of the scope.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fathom-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline std::filesystem::path write_file(const std::filesystem::path& path, std::string_view content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
  return path;
}

inline std::string read_all(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string content(static_cast<size_t>(std::filesystem::file_size(path)), '\0');
  if (!file.read(content.data(), static_cast<std::streamsize>(content.size())))
    throw std::runtime_error("cannot read " + path.string());
  return content;
}

/// Eight bytes, little-endian.
inline std::string little_endian(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xFF);
  return bytes;
}

/// A file with this header text, whatever it says, and this data.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  return little_endian(header.size()) + std::string(header) + std::string(data);
}

struct RawTensor {
  std::string name;
  std::string dtype;  // as spelled in the file
  std::vector<int64_t> shape;
  std::string bytes;
};

inline std::string safetensors_bytes(const std::vector<RawTensor>& tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::string data;
  for (const RawTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  return safetensors_bytes(header.dump(), data);
}

/// A model directory's tensors in memory, to be changed and written again.
class CheckpointBuilder {
 public:
  CheckpointBuilder() = default;

  /// Reads all *.safetensors files of a (sound) directory, in the order of their names.
  explicit CheckpointBuilder(const std::filesystem::path& directory) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(directory))
      if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const auto& file : files) {
      const std::string content = read_all(file);
      uint64_t length = 0;
      for (size_t i = 0; i < 8; ++i) length |= uint64_t{static_cast<unsigned char>(content[i])} << (8 * i);
      const std::string_view data = std::string_view(content).substr(8 + length);
      const auto header = nlohmann::ordered_json::parse(content.substr(8, length));
      for (const auto& [name, info] : header.items()) {
        if (name == "__metadata__") continue;
        const auto offsets = info.at("data_offsets").get<std::vector<size_t>>();
        tensors.push_back({name, info.at("dtype").get<std::string>(),
                           info.at("shape").get<std::vector<int64_t>>(),
                           std::string(data.substr(offsets[0], offsets[1] - offsets[0]))});
      }
    }
  }

  RawTensor& at(std::string_view name) {
    const auto found =
        std::find_if(tensors.begin(), tensors.end(), [&](const RawTensor& t) { return t.name == name; });
    if (found == tensors.end()) throw std::runtime_error("no tensor " + std::string(name));
    return *found;
  }

  void erase(std::string_view name) {
    at(name);
    std::erase_if(tensors, [&](const RawTensor& tensor) { return tensor.name == name; });
  }

  /// Writes `num_shards` files and their index into a directory.
  void write(const std::filesystem::path& directory, size_t num_shards = 1) const {
    nlohmann::ordered_json map = nlohmann::ordered_json::object();
    for (size_t shard = 0; shard < num_shards; ++shard) {
      const auto begin = tensors.begin() + static_cast<std::ptrdiff_t>(tensors.size() * shard / num_shards);
      const auto end =
          tensors.begin() + static_cast<std::ptrdiff_t>(tensors.size() * (shard + 1) / num_shards);
      const std::string name = shard_name(shard, num_shards);
      write_file(directory / name, safetensors_bytes(std::vector<RawTensor>(begin, end)));
      for (auto tensor = begin; tensor != end; ++tensor) map[tensor->name] = name;
    }
    write_file(directory / "model.safetensors.index.json",
               nlohmann::ordered_json{{"metadata", {{"total_size", 0}}}, {"weight_map", map}}.dump());
  }

  static std::string shard_name(size_t shard, size_t num_shards) {
    return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, num_shards);
  }

  std::vector<RawTensor> tensors;
};

}  // namespace fathom::test
