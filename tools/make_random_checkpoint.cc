// make_random_checkpoint DIR SIZE: a model of about a chosen size, full of random weights.
//
// Written in the released layout (shards, index, FP8 dense weights, FP4 experts, E8M0 scales), with scales
// that keep activations in range, so that logits are finite and mean nothing. Nearly all of it is routed
// experts. Configuration and tokenizer are those of the tiny golden model, widened until the size is reached.
// For tests and measurements of memory tiers: unlike a sparse checkpoint, all of its bytes are on the disk.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "base/size_text.h"
#include "checkpoint/safetensors_writer.h"
#include "model/config.h"
#include "model/engram_layout.h"
#include "model/manifest.h"
#include "tensor/bfloat16.h"

namespace fathom {
namespace {

const std::filesystem::path tiny = std::filesystem::path(FATHOM_SOURCE_DIR) / "tests/golden/tiny/model";
constexpr int64_t shard_bytes = int64_t{1} << 30;

// splitmix64
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  /// In [-1, 1).
  float uniform() { return static_cast<float>(static_cast<double>(next() >> 11) * 0x1p-52 - 1); }
  void fill(std::vector<uint8_t>& bytes) {
    for (size_t i = 0; i < bytes.size(); i += 8) {
      const uint64_t word = next();
      std::memcpy(bytes.data() + i, &word, std::min<size_t>(8, bytes.size() - i));
    }
  }

 private:
  uint64_t state_;
};

int64_t expert_bytes(int64_t dim, int64_t inter) { return 3 * dim * inter / 2 * 17 / 16; }

// The tiny configuration with as wide and as many experts as make up `size` bytes.
Json widened_config(const Json& base, int64_t size) {
  Json config = base;
  Json& text = config["text_config"];
  const int64_t layers = text["num_hidden_layers"].get<int64_t>();
  int64_t dim = 128;
  const auto experts_for = [&](int64_t d) { return size * 9 / 10 / layers / expert_bytes(d, d / 2); };
  while (dim < 4096 && experts_for(dim) > 256) dim *= 2;
  const int64_t experts = std::clamp<int64_t>(experts_for(dim), 8, 4096);
  text["hidden_size"] = dim;
  text["moe_intermediate_size"] = dim / 2;
  text["q_lora_rank"] = dim / 2;
  text["n_routed_experts"] = experts;
  text["num_experts_per_tok"] = std::min<int64_t>(6, experts / 2);
  text["dspark_n_routed_experts"] = std::max<int64_t>(4, experts / 8);
  // Tables of about a 50th of the size.
  const int64_t tables = static_cast<int64_t>(text["engram_layer_ids"].size());
  text["engram_head_dim"] = 256;
  const int64_t buckets = 3 * text["engram_n_heads"].get<int64_t>();
  text["engram_vocab_size"] = std::max<int64_t>(200, size / 50 / tables / buckets / 264);
  return config;
}

// What the bucket primes of that configuration add up to.
Result<Json> with_table_sizes(Json config) {
  Json& text = config["text_config"];
  ModelConfig c;
  c.engram_layer_ids = text["engram_layer_ids"].get<std::vector<int64_t>>();
  c.engram_max_ngram_size = text["engram_max_ngram_size"].get<int64_t>();
  c.engram_vocab_size = text["engram_vocab_size"].get<int64_t>();
  c.engram_n_heads = text["engram_n_heads"].get<int64_t>();
  c.engram_head_dim = text["engram_head_dim"].get<int64_t>();
  c.engram_compressed_vocab_size = text["engram_compressed_vocab_size"].get<int64_t>();
  FATHOM_ASSIGN(const EngramLayout layout, make_engram_layout(c));
  for (size_t i = 0; i < c.engram_layer_ids.size(); ++i)
    text["engram_num_embeddings"][i] = layout.table_rows(static_cast<int64_t>(i));
  return config;
}

// Scales that bring codes of root mean square `rms` to weights of variance 1 / inputs.
uint8_t scale_code(int64_t inputs, double rms) {
  return static_cast<uint8_t>(127 +
                              std::lround(-0.5 * std::log2(static_cast<double>(inputs)) - std::log2(rms)));
}

std::vector<uint8_t> floats(const ExpectedTensor& tensor, Random& random) {
  const bool bf16_stored = released_dtype(tensor) == DType::bf16;
  const int64_t last = tensor.shape[tensor.shape.rank() - 1];
  const bool gain = tensor.name.find("norm") != std::string::npos || tensor.name.ends_with("q_weight") ||
                    tensor.name.ends_with("k_weight");
  const float width = gain || tensor.shape.rank() == 1 ? 0.1f : std::sqrt(3.0f / static_cast<float>(last));
  std::vector<uint8_t> bytes(static_cast<size_t>(released_bytes(tensor)));
  for (int64_t i = 0; i < tensor.shape.elements(); ++i) {
    const float value = (gain ? 1.0f : 0.0f) + width * random.uniform();
    if (bf16_stored) {
      const bf16 rounded = to_bf16(value);
      std::memcpy(bytes.data() + 2 * i, &rounded, 2);
    } else {
      std::memcpy(bytes.data() + 4 * i, &value, 4);
    }
  }
  return bytes;
}

// Each scale belongs to the tensor written before it: `inputs` and `rms` of that one.
std::vector<uint8_t> content(const ExpectedTensor& tensor, Random& random, int64_t& inputs, double& rms) {
  if (tensor.storage == TensorStorage::unquantized) return floats(tensor, random);
  std::vector<uint8_t> bytes(static_cast<size_t>(released_bytes(tensor)));
  random.fill(bytes);
  switch (tensor.storage) {
    case TensorStorage::e4m3:
      for (uint8_t& b : bytes)
        if ((b & 0x7F) == 0x7F) b ^= 1;  // NaN
      inputs = tensor.shape[1];
      rms = 110;
      break;
    case TensorStorage::packed_fp4:
      inputs = 2 * tensor.shape[1];
      rms = 2.9;
      break;
    default:
      for (uint8_t& b : bytes) b = static_cast<uint8_t>(scale_code(inputs, rms) + b % 3 - 1);
  }
  return bytes;
}

class ShardWriter {
 public:
  ShardWriter(std::filesystem::path directory, const std::vector<ExpectedTensor>& manifest)
      : directory_(std::move(directory)) {
    int64_t reached = 0;
    for (const ExpectedTensor& tensor : manifest) {
      const bool scale = tensor.storage == TensorStorage::e8m0;  // stays with its weight
      if (shards_.empty() || (reached >= shard_bytes && !scale)) {
        shards_.emplace_back();
        reached = 0;
      }
      shards_.back().push_back(&tensor);
      reached += released_bytes(tensor);
    }
  }

  Status write() {
    Json map = Json::object();
    int64_t total = 0;
    for (size_t i = 0; i < shards_.size(); ++i) {
      const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards_.size());
      FATHOM_TRY(write_shard(directory_ / name, shards_[i]));
      for (const ExpectedTensor* tensor : shards_[i]) {
        static_cast<Json::object_t::Container&>(map.get_ref<Json::object_t&>())
            .emplace_back(tensor->name, name);
        total += released_bytes(*tensor);
      }
    }
    const Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}};
    std::ofstream(directory_ / "model.safetensors.index.json") << index.dump(1);
    fmt::print("{}: {} in {} shards\n", directory_.string(), size_text(total), shards_.size());
    return {};
  }

 private:
  Status write_shard(const std::filesystem::path& path, const std::vector<const ExpectedTensor*>& tensors) {
    std::vector<TensorView> views;
    for (const ExpectedTensor* t : tensors) views.push_back({nullptr, released_dtype(*t), t->shape, t->name});
    const std::pair<std::string, std::string> format{"format", "pt"};
    FATHOM_ASSIGN(const std::string header, safetensors_header(views, {&format, 1}));
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(header.data(), static_cast<std::streamsize>(header.size()));
    for (const ExpectedTensor* t : tensors) {
      const std::vector<uint8_t> bytes = content(*t, random_, inputs_, rms_);
      file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    }
    file.close();
    if (!file) return fail(ErrorCode::io, "{}: cannot write", path.string());
    return {};
  }

  std::filesystem::path directory_;
  std::vector<std::vector<const ExpectedTensor*>> shards_;
  Random random_{20260711};
  int64_t inputs_ = 1;
  double rms_ = 1;
};

Status make(const std::filesystem::path& directory, std::string_view size) {
  FATHOM_ASSIGN(const int64_t bytes, parse_size(size));
  std::filesystem::create_directories(directory);
  FATHOM_ASSIGN(const std::string text, read_file(tiny / "config.json", 1 << 20));
  FATHOM_ASSIGN(const Json base, parse_json(text, "config.json"));
  FATHOM_ASSIGN(const Json config, with_table_sizes(widened_config(base, bytes)));
  FATHOM_ASSIGN(const ModelConfig parsed, parse_config(config.dump()));
  std::ofstream(directory / "config.json") << config.dump(1);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
    std::filesystem::copy_file(tiny / name, directory / name,
                               std::filesystem::copy_options::overwrite_existing);
  const std::vector<ExpectedTensor> manifest = make_manifest(parsed);
  return ShardWriter(directory, manifest).write();
}

}  // namespace
}  // namespace fathom

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: make_random_checkpoint DIR SIZE\n");
    return 2;
  }
  if (const fathom::Status made = fathom::make(argv[1], argv[2]); !made) {
    std::fprintf(stderr, "make_random_checkpoint: %s\n", made.error().message.c_str());
    return 1;
  }
  return 0;
}
