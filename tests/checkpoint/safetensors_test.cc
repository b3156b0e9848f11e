#include "checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "tests/support/checkpoint_builder.h"

namespace fathom {
namespace {

using test::safetensors_bytes;
using test::TempDir;
using test::write_file;
using testing::AllOf;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

Result<SafetensorsFile> parse(const std::string& file) {
  return SafetensorsFile::parse(bytes_of(file), "x.safetensors");
}

// The message of a refusal; "accepted" when there is none.
std::string error_of(const std::string& file) {
  const auto parsed = parse(file);
  return parsed ? "accepted" : parsed.error().message;
}

std::string header_error(std::string_view header, size_t data_bytes = 0) {
  return error_of(safetensors_bytes(header, std::string(data_bytes, '\0')));
}

// One tensor "t" with these fields.
std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return fmt::format(R"({{"t":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape, offsets);
}

TEST(Safetensors, GivesTypedViewsInOrderOfNames) {
  const std::string file = safetensors_bytes(
      R"({"__metadata__":{"format":"pt","note":"é"},"b":{"dtype":"F32","shape":[2],"data_offsets":[6,14]},)"
      R"("a":{"shape":[3,1],"data_offsets":[0,6],"dtype":"BF16"},"\u0061.0":{"dtype":"U8","shape":[],"data_offsets":[14,15]}}  )",
      "abcdefABCDEFGH!");
  const auto parsed = parse(file);
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_EQ(parsed->entries().size(), 3u);
  EXPECT_EQ(parsed->entries()[0].name, "a");
  EXPECT_EQ(parsed->entries()[1].name, "a.0");
  EXPECT_EQ(parsed->entries()[2].name, "b");
  const auto b = parsed->find("b");
  ASSERT_TRUE(b);
  EXPECT_EQ(b->dtype, DType::f32);
  EXPECT_EQ(b->shape, (Shape{2}));
  EXPECT_EQ(std::memcmp(b->data, "ABCDEFGH", 8), 0);
  const auto a = parsed->find("a");
  ASSERT_TRUE(a);
  EXPECT_EQ(a->shape, (Shape{3, 1}));
  EXPECT_EQ(std::memcmp(a->data, "abcdef", 6), 0);
  EXPECT_EQ(parsed->find("a.0")->shape.rank(), 0);
  EXPECT_FALSE(parsed->find("c"));
  EXPECT_FALSE(parsed->find(""));
  ASSERT_EQ(parsed->metadata().size(), 2u);
  EXPECT_EQ(parsed->metadata()[1].second, "é");
  EXPECT_EQ(parsed->data_bytes(), 15u);
}

TEST(Safetensors, ViewsSurviveMovingTheFile) {
  const std::string file = safetensors_bytes(one("U8", "[2]", "[0,2]"), "xy");
  auto parsed = parse(file);
  ASSERT_TRUE(parsed);
  const SafetensorsFile moved = std::move(*parsed);
  EXPECT_EQ(moved.entries()[0].name, "t");
}

TEST(Safetensors, AcceptsNoTensorsAndEmptyTensors) {
  EXPECT_EQ(header_error("{}"), "accepted");
  EXPECT_EQ(header_error(one("F32", "[0,5]", "[0,0]")), "accepted");
  EXPECT_EQ(header_error(R"({"b":{"dtype":"U8","shape":[0],"data_offsets":[1,1]},)"
                         R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                         1),
            "accepted");
}

TEST(Safetensors, CountsEveryStoredType) {
  const std::pair<const char*, size_t> types[] = {
      {"F64", 8}, {"I64", 8}, {"U64", 8}, {"F32", 4},     {"I32", 4},     {"U32", 4}, {"F16", 2}, {"BF16", 2},
      {"I16", 2}, {"U16", 2}, {"I8", 1},  {"F8_E4M3", 1}, {"F8_E8M0", 1}, {"U8", 1},  {"BOOL", 1}};
  for (const auto& [name, size] : types) {
    EXPECT_EQ(header_error(one(name, "[3]", fmt::format("[0,{}]", 3 * size)), 3 * size), "accepted") << name;
    EXPECT_THAT(header_error(one(name, "[3]", fmt::format("[0,{}]", 3 * size + 1)), 3 * size + 1),
                HasSubstr(fmt::format("{} [3] needs {} bytes", name, 3 * size)));
  }
}

TEST(Safetensors, TakesF4ShapesInValuesAndInBytes) {
  for (const char* shape : {"[2,8]", "[2,4]"}) {
    const std::string file = safetensors_bytes(one("F4", shape, "[0,8]"), std::string(8, 'x'));
    const auto parsed = parse(file);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->entries()[0].dtype, DType::e2m1x2);
    EXPECT_EQ(parsed->entries()[0].shape, (Shape{2, 4})) << shape;
  }
  EXPECT_EQ(header_error(one("F4", "[0]", "[0,0]")), "accepted");
  // Rows of half a byte: 2 x 3 values in 3 bytes.
  EXPECT_THAT(header_error(one("F4", "[2,3]", "[0,3]"), 3), HasSubstr("F4 [2, 3] needs 6 bytes"));
  EXPECT_THAT(header_error(one("F4", "[2,8]", "[0,7]"), 7), HasSubstr("hold 7"));
}

TEST(Safetensors, AnUnknownTypeIsAnErrorOfItsOwn) {
  const std::string file = safetensors_bytes(one("F8_E5M2", "[1]", "[0,1]"), "x");
  const auto parsed = parse(file);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, ErrorCode::unsupported);
  EXPECT_THAT(
      parsed.error().message,
      AllOf(HasSubstr("x.safetensors: tensor \"t\": unknown dtype \"F8_E5M2\""), HasSubstr("F8_E4M3")));
}

TEST(Safetensors, RefusesLengthsThatDoNotFit) {
  EXPECT_THAT(error_of(""), HasSubstr("truncated: 0 bytes"));
  EXPECT_THAT(error_of("1234567"), HasSubstr("truncated: 7 bytes"));
  EXPECT_THAT(error_of(test::little_endian(1)), HasSubstr("truncated: a header of 1 bytes, the file has 0"));
  EXPECT_THAT(error_of(test::little_endian(3) + "{}"), HasSubstr("truncated"));
  EXPECT_THAT(error_of(test::little_endian(100'000'001) + "{}"), HasSubstr("expected at most 100000000"));
  EXPECT_THAT(error_of(test::little_endian(UINT64_MAX) + "{}"), HasSubstr("expected at most 100000000"));
  EXPECT_THAT(error_of(test::little_endian(0) + "{}"), HasSubstr("not a safetensors file"));
}

TEST(Safetensors, TellsATruncatedFileFromOneWithSurplusBytes) {
  const std::string header = one("F32", "[4]", "[0,16]");
  EXPECT_EQ(header_error(header, 16), "accepted");
  EXPECT_THAT(header_error(header, 15),
              HasSubstr("truncated: the header describes 16 bytes of data, the file has 15"));
  EXPECT_THAT(header_error(header, 17), HasSubstr("1 bytes after the last tensor"));
}

TEST(Safetensors, RefusesOverlapsAndHoles) {
  const auto two = [](std::string_view first, std::string_view second) {
    return fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":{}}},)"
                       R"("b":{{"dtype":"U8","shape":[4],"data_offsets":{}}}}})",
                       first, second);
  };
  EXPECT_EQ(header_error(two("[4,8]", "[0,4]"), 8), "accepted");
  EXPECT_THAT(header_error(two("[0,4]", "[3,7]"), 8), HasSubstr("tensors \"a\" and \"b\" overlap"));
  EXPECT_THAT(header_error(two("[0,4]", "[0,4]"), 8), HasSubstr("overlap"));
  EXPECT_THAT(header_error(two("[0,4]", "[5,9]"), 9),
              HasSubstr("1 bytes before tensor \"b\" belong to no tensor"));
  EXPECT_THAT(header_error(two("[1,5]", "[5,9]"), 9), HasSubstr("1 bytes before tensor \"a\""));
}

TEST(Safetensors, RefusesRangesThatOverflow) {
  EXPECT_THAT(header_error(one("U8", "[4]", "[4,0]"), 4), HasSubstr("run backwards"));
  EXPECT_THAT(header_error(one("U8", "[4]", "[18446744073709551612,18446744073709551615]"), 4),
              HasSubstr("needs 4"));
  EXPECT_THAT(header_error(one("U8", "[3]", "[18446744073709551612,18446744073709551615]"), 4),
              HasSubstr("belong to no tensor"));
  // Products that wrap to the length of the range.
  EXPECT_THAT(header_error(one("U8", "[4294967296,4294967296]", "[0,0]")), HasSubstr("more than 2^63"));
  EXPECT_THAT(header_error(one("F32", "[4611686018427387905]", "[0,4]"), 4), HasSubstr("more than 2^63"));
  EXPECT_THAT(header_error(one("U8", "[9223372036854775807,9223372036854775807,0]", "[0,0]")),
              HasSubstr("more than 2^63"));
  EXPECT_THAT(header_error(one("F4", "[9223372036854775807,3]", "[0,4]"), 4), HasSubstr("more than 2^63"));
  EXPECT_THAT(header_error(one("U8", "[9223372036854775808]", "[0,0]")), HasSubstr("a dimension below 2^63"));
  EXPECT_THAT(header_error(one("U8", "[18446744073709551616]", "[0,0]")),
              HasSubstr("a dimension below 2^63"));
}

TEST(Safetensors, RefusesDuplicates) {
  EXPECT_THAT(header_error(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                           R"("\u0074":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                           2),
              HasSubstr("tensor \"t\" appears twice"));
  EXPECT_THAT(header_error(R"({"t":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1),
              HasSubstr("a field appears twice"));
  EXPECT_THAT(header_error(R"({"__metadata__":{},"__metadata__":{}})"), HasSubstr("duplicate __metadata__"));
}

TEST(Safetensors, RefusesHeadersOfAnotherForm) {
  for (const char* header : {"",
                             " {}",
                             "[]",
                             "{",
                             "{}}",
                             "{} x",
                             "null",
                             R"({"t":1})",
                             R"({"t":[]})",
                             R"({"t":{}})",
                             R"({"t":null})",
                             R"({"t":{"dtype":"U8","shape":[1]}})",
                             R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0]}})",
                             R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}})",
                             R"({"t":{"dtype":1,"shape":[1],"data_offsets":[0,1]}})",
                             R"({"t":{"dtype":["U8"],"shape":[1],"data_offsets":[0,1]}})",
                             R"({"t":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})",
                             R"({"t":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})",
                             R"({"t":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})",
                             R"({"t":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}})",
                             R"({"t":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})",
                             R"({"t":{"dtype":"U8","shape":[null],"data_offsets":[0,1]}})",
                             R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"extra":true}})",
                             R"({"t":{"dtype":"u8","shape":[1],"data_offsets":[0,1]}})",
                             R"({"__metadata__":[]})",
                             R"({"__metadata__":{"a":1}})",
                             R"({"__metadata__":{"a":{}}})",
                             R"({"__metadata__":"a"})",
                             R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1e0]}})",
                             "{\"\xff\":{}}"}) {
    const std::string message = header_error(header, 1);
    EXPECT_NE(message, "accepted") << header;
    EXPECT_THAT(message, HasSubstr("x.safetensors: ")) << header;
  }
}

TEST(Safetensors, RefusesAHeaderThatHidesBytesBehindAZero) {
  const std::string header = one("U8", "[1]", "[0,1]") + std::string(1, '\0') + "hidden";
  EXPECT_THAT(header_error(header, 1), HasSubstr("zero byte"));
}

TEST(Safetensors, RefusesMoreThanFourDimensions) {
  EXPECT_EQ(header_error(one("U8", "[1,1,1,1]", "[0,1]"), 1), "accepted");
  const std::string file = safetensors_bytes(one("U8", "[1,1,1,1,1]", "[0,1]"), "x");
  const auto parsed = parse(file);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().code, ErrorCode::unsupported);
}

TEST(Safetensors, DeepNestingCostsNothing) {
  EXPECT_NE(header_error("{\"t\":" + std::string(20'000'000, '[')), "accepted");
  EXPECT_NE(header_error(one("U8", std::string(20'000'000, '['), "[0,0]")), "accepted");
}

TEST(Safetensors, ShowsHostileNamesHarmlessly) {
  const std::string message = header_error(R"({"\u001b[2J)" + std::string(5000, 'n') + R"(":{}})");
  EXPECT_THAT(message, HasSubstr("\\x1b[2Jnnn"));
  EXPECT_LT(message.size(), 400u);
}

TEST(Safetensors, ReadsManyTensorsInLinearTime) {
  std::string header = "{";
  constexpr int count = 100000;
  for (int i = count; i-- > 0;)
    header += fmt::format(R"({}"layers.{}":{{"dtype":"U8","shape":[1],"data_offsets":[{},{}]}})",
                          header.size() > 1 ? "," : "", i, i, i + 1);
  const std::string file = safetensors_bytes(header + "}", std::string(count, 'x'));
  const auto start = std::chrono::steady_clock::now();
  const auto parsed = parse(file);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  ASSERT_TRUE(parsed) << parsed.error().message;
  for (const int i : {0, 1, 777, count - 1}) {
    const auto tensor = parsed->find(fmt::format("layers.{}", i));
    ASSERT_TRUE(tensor);
    EXPECT_EQ(reinterpret_cast<const char*>(tensor->data), file.data() + file.size() - count + i);
  }
}

TEST(Safetensors, OpensAFileAndNamesItsPathInErrors) {
  const TempDir dir;
  const auto good = SafetensorsFile::open(
      write_file(dir / "good.safetensors", safetensors_bytes(one("U8", "[2]", "[0,2]"), "xy")));
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(std::memcmp(good->find("t")->data, "xy", 2), 0);
  const auto bad = SafetensorsFile::open(write_file(dir / "bad.safetensors", "{}"));
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, HasSubstr((dir / "bad.safetensors").string() + ": truncated"));
  const auto missing = SafetensorsFile::open(dir / "none.safetensors");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
}

// Every cut of a small file is refused, and none crashes.
TEST(Safetensors, RefusesEveryPrefix) {
  const std::string file = safetensors_bytes(one("F32", "[2]", "[0,8]"), "12345678");
  for (size_t length = 0; length < file.size(); ++length) {
    // A copy of exactly this length, so that a read past the end is seen by the sanitizer.
    const std::vector<char> cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_FALSE(SafetensorsFile::parse(std::as_bytes(std::span(cut)), "cut")) << length;
  }
  EXPECT_EQ(error_of(file), "accepted");
}

}  // namespace
}  // namespace fathom
