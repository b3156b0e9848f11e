#include "checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/checkpoint_builder.h"

namespace fathom {
namespace {

using test::CheckpointBuilder;
using test::RawTensor;
using test::TempDir;
using test::write_file;
using testing::AllOf;
using testing::HasSubstr;

const std::filesystem::path tiny = std::filesystem::path(FATHOM_SOURCE_DIR) / "tests/golden/tiny/model";

CheckpointBuilder small() {
  CheckpointBuilder builder;
  builder.tensors = {
      {"a", "U8", {2}, "aa"}, {"b", "F32", {1}, "bbbb"}, {"c", "BF16", {2}, "cccc"}, {"d", "I8", {1}, "d"}};
  return builder;
}

std::string error_of(const std::filesystem::path& directory) {
  const auto checkpoint = Checkpoint::open(directory);
  return checkpoint ? "accepted" : checkpoint.error().message;
}

TEST(Checkpoint, OpensShardsInPlace) {
  const TempDir dir;
  small().write(dir.path(), 2);
  auto opened = Checkpoint::open(dir.path());
  ASSERT_TRUE(opened) << opened.error().message;
  const Checkpoint checkpoint = std::move(*opened);
  EXPECT_EQ(checkpoint.num_shards(), 2u);
  EXPECT_EQ(checkpoint.total_bytes(), 11u);
  ASSERT_EQ(checkpoint.entries().size(), 4u);
  EXPECT_EQ(checkpoint.entries()[2].tensor->name, "c");
  const TensorView* c = checkpoint.find("c");
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(std::memcmp(c->data, "cccc", 4), 0);
  EXPECT_EQ(c->name, "c");
  checkpoint.will_need(*c);
  checkpoint.will_need(std::span<const std::byte>(c->data, 1));
  EXPECT_EQ(checkpoint.file_of("b"), "model-00001-of-00002.safetensors");
  EXPECT_EQ(checkpoint.file_of("c"), "model-00002-of-00002.safetensors");
  EXPECT_EQ(checkpoint.find("e"), nullptr);
  EXPECT_EQ(checkpoint.file_of("e"), "");
}

TEST(Checkpoint, SaysWhereATensorLies) {
  const TempDir dir;
  small().write(dir.path(), 2);
  const Checkpoint checkpoint = Checkpoint::open(dir.path()).value();
  for (const char* name : {"a", "b", "c", "d"}) {
    const auto place = checkpoint.place_of(name);
    ASSERT_TRUE(place) << name;
    const std::string file = test::read_all(checkpoint.shard_path(place->shard));
    EXPECT_EQ(file.substr(place->offset, place->bytes), std::string(place->bytes, name[0])) << name;
    EXPECT_EQ(checkpoint.shard_path(place->shard).filename(), checkpoint.file_of(name));
  }
  EXPECT_FALSE(checkpoint.place_of("e"));
}

TEST(Checkpoint, OpensTheTinyModel) {
  const auto checkpoint = Checkpoint::open(tiny);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  const CheckpointBuilder expected(tiny);
  EXPECT_EQ(checkpoint->num_shards(), 3u);
  ASSERT_EQ(checkpoint->entries().size(), expected.tensors.size());
  for (const RawTensor& tensor : expected.tensors) {
    const TensorView* found = checkpoint->find(tensor.name);
    ASSERT_NE(found, nullptr) << tensor.name;
    EXPECT_EQ(dtype_name(found->dtype), tensor.dtype);
    ASSERT_EQ(found->bytes(), static_cast<int64_t>(tensor.bytes.size()));
    EXPECT_EQ(std::memcmp(found->data, tensor.bytes.data(), tensor.bytes.size()), 0) << tensor.name;
  }
}

TEST(Checkpoint, OpensASingleFileWithoutAnIndex) {
  const TempDir dir;
  write_file(dir / "model.safetensors", test::safetensors_bytes(small().tensors));
  const auto checkpoint = Checkpoint::open(dir.path());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->entries().size(), 4u);
  EXPECT_EQ(checkpoint->file_of("a"), "model.safetensors");
}

TEST(Checkpoint, FollowsLinksToShards) {
  const TempDir dir, blobs;
  write_file(blobs / "blob", test::safetensors_bytes(small().tensors));
  std::filesystem::create_symlink(blobs / "blob", dir / "model.safetensors");
  EXPECT_EQ(error_of(dir.path()), "accepted");
}

TEST(Checkpoint, NamesWhatIsNotThere) {
  const TempDir dir;
  EXPECT_THAT(error_of(dir / "none"), HasSubstr("no such directory"));
  EXPECT_THAT(error_of(write_file(dir / "file", "")), HasSubstr("no such directory"));
  EXPECT_THAT(error_of(dir.path()), HasSubstr("neither model.safetensors.index.json nor model.safetensors"));
}

// Three faults of one shard, three messages that name it.
TEST(Checkpoint, TellsMissingTruncatedAndUnknownShardsApart) {
  const TempDir dir;
  small().write(dir.path(), 2);
  const auto shard = dir / "model-00002-of-00002.safetensors";
  const std::string sound = test::read_all(shard);

  write_file(shard, sound.substr(0, sound.size() - 1));
  const auto truncated = Checkpoint::open(dir.path());
  ASSERT_FALSE(truncated);
  EXPECT_EQ(truncated.error().code, ErrorCode::format);
  EXPECT_THAT(truncated.error().message, AllOf(HasSubstr(shard.string()), HasSubstr("truncated")));

  CheckpointBuilder unknown = small();
  unknown.at("d").dtype = "F8_E4M3FNUZ";
  unknown.write(dir.path(), 2);
  const auto refused = Checkpoint::open(dir.path());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_THAT(refused.error().message,
              AllOf(HasSubstr(shard.string()), HasSubstr("tensor \"d\""), HasSubstr("F8_E4M3FNUZ")));

  std::filesystem::remove(shard);
  const auto missing = Checkpoint::open(dir.path());
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_THAT(missing.error().message, AllOf(HasSubstr(shard.string()), HasSubstr("missing shard")));
}

TEST(Checkpoint, RefusesAnIndexThatDisagreesWithTheShards) {
  const TempDir dir;
  small().write(dir.path(), 2);
  const auto index = dir / "model.safetensors.index.json";
  const std::string sound = test::read_all(index);
  const auto edited = [&](std::string_view from, std::string_view to) {
    std::string text = sound;
    text.replace(text.find(from), from.size(), to);
    write_file(index, text);
    return error_of(dir.path());
  };
  EXPECT_THAT(
      edited("\"b\":", "\"x\":"),
      AllOf(
          HasSubstr("2 problems"),
          HasSubstr("\"b\": model-00001-of-00002.safetensors holds it, the index does not list it"),
          HasSubstr("\"x\": the index places it in model-00001-of-00002.safetensors, which does not hold")));
  EXPECT_THAT(
      edited("\"b\":\"model-00001", "\"b\":\"model-00002"),
      HasSubstr("\"b\": the index places it in model-00002-of-00002.safetensors, it is in model-00001"));
  EXPECT_THAT(edited("\"d\":\"model-00002-of-00002.safetensors\"", "\"d\":\"../m.safetensors\""),
              HasSubstr("plain file name"));
  write_file(index, R"({"weight_map":{}})");
  EXPECT_THAT(error_of(dir.path()), HasSubstr("weight_map is empty"));
  write_file(index, "{");
  EXPECT_THAT(error_of(dir.path()), HasSubstr("model.safetensors.index.json: not valid JSON"));
}

TEST(Checkpoint, ListsTwentyProblemsAndCountsTheRest) {
  const TempDir dir;
  CheckpointBuilder builder;
  for (int i = 0; i < 50; ++i) builder.tensors.push_back({fmt::format("t{}", i), "U8", {1}, "x"});
  builder.write(dir.path());
  write_file(dir / "model.safetensors.index.json",
             R"({"weight_map":{"t0":"model-00001-of-00001.safetensors"}})");
  const std::string message = error_of(dir.path());
  EXPECT_THAT(message, AllOf(HasSubstr("49 problems"), HasSubstr("and 29 more")));
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 21);
}

TEST(Checkpoint, RefusesATensorInTwoShards) {
  const TempDir dir;
  small().write(dir.path(), 2);
  write_file(
      dir / "model-00002-of-00002.safetensors",
      test::safetensors_bytes({{"a", "U8", {1}, "x"}, {"c", "BF16", {2}, "cccc"}, {"d", "I8", {1}, "d"}}));
  EXPECT_THAT(
      error_of(dir.path()),
      HasSubstr("tensor \"a\" is in two shards, model-00001-of-00002.safetensors and model-00002-of-00002"));
}

TEST(Checkpoint, RefusesAShardThatIsADirectory) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "model.safetensors");
  EXPECT_THAT(error_of(dir.path()), HasSubstr("expected a regular file"));
}

}  // namespace
}  // namespace fathom
