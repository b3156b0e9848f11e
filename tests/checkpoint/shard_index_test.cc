#include "checkpoint/shard_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fathom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(std::string_view json) {
  const auto index = ShardIndex::parse(json, "index.json");
  return index ? "accepted" : index.error().message;
}

TEST(ShardIndex, SortsTensorsAndShards) {
  const auto index =
      ShardIndex::parse(R"({"metadata":{"total_size":1,"x":[{"y":[null,1.5,true,-1,"s"]}]},"weight_map":{
      "b":"m2.safetensors","\u0061":"m1.safetensors","c":"m2.safetensors"},"more":[1]})",
                        "index.json");
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_THAT(index->shards(), ElementsAre("m1.safetensors", "m2.safetensors"));
  ASSERT_EQ(index->entries().size(), 3u);
  EXPECT_EQ(index->entries()[0].tensor, "a");
  EXPECT_EQ(index->entries()[0].shard, 0u);
  EXPECT_EQ(index->entries()[1].tensor, "b");
  EXPECT_EQ(index->entries()[1].shard, 1u);
  EXPECT_EQ(index->entries()[2].shard, 1u);
}

TEST(ShardIndex, RefusesNamesThatLeaveTheDirectory) {
  for (const char* name : {"../m.safetensors", "/etc/m.safetensors", "a/m.safetensors", "..", ".", "",
                           "m.bin", ".safetensors", "..safetensors", ".hidden.safetensors",
                           "a\\\\m.safetensors", "m\\u0000.safetensors", "model.safetensors.index.json"}) {
    EXPECT_THAT(error_of(fmt::format(R"({{"weight_map":{{"t":"{}"}}}})", name)),
                HasSubstr("expected a plain file name"))
        << name;
  }
  EXPECT_NE(error_of(R"({"weight_map":{"t":")" + std::string(5000, 'a') + R"(.safetensors"}})"), "accepted");
  EXPECT_EQ(error_of(R"({"weight_map":{"t":"a..b.safetensors"}})"), "accepted");
}

TEST(ShardIndex, RefusesAnotherForm) {
  for (const char* json :
       {"", "[]", "1", "\"s\"", "null", "{", "{} {}", "{}", R"({"metadata":{}})", R"({"weight_map":[]})",
        R"({"weight_map":"a.safetensors"})", R"({"weight_map":null})", R"({"weight_map":{"t":1}})",
        R"({"weight_map":{"t":["a.safetensors"]}})", R"({"weight_map":{"t":{"u":"a.safetensors"}}})",
        R"({"weight_map":{"t":"a.safetensors"},"weight_map":{}})",
        R"({"x":{"weight_map":{"t":"a.safetensors"}}})"}) {
    const std::string message = error_of(json);
    EXPECT_NE(message, "accepted") << json;
    EXPECT_THAT(message, HasSubstr("index.json: ")) << json;
  }
}

TEST(ShardIndex, RefusesDuplicatesAndHiddenBytes) {
  EXPECT_THAT(error_of(R"({"weight_map":{"t":"a.safetensors","\u0074":"a.safetensors"}})"),
              HasSubstr("tensor \"t\" appears twice"));
  EXPECT_THAT(error_of(std::string_view("{\"weight_map\":{}}\0x", 19)), HasSubstr("zero byte"));
}

TEST(ShardIndex, BoundsNesting) {
  const auto nested = [](size_t depth) {
    return R"({"weight_map":{},"metadata":)" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  EXPECT_EQ(error_of(nested(63)), "accepted");
  EXPECT_THAT(error_of(nested(64)), HasSubstr("nested deeper than 64"));
  EXPECT_THAT(error_of(nested(10'000'000)), HasSubstr("nested deeper than 64"));
}

}  // namespace
}  // namespace fathom
