#include "common/io/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace gimbal::io {
namespace {

using absl::StatusCode;
using test_support::StatusIs;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(SafetensorsHeaderTest, OrdersTensorsByTheirData) {
  ASSERT_OK_AND_ASSIGN(
      const SafetensorsHeader header,
      ParseSafetensorsHeader(
          R"({"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},)"
          R"("__metadata__":{"format":"1"},)"
          R"("empty":{"dtype":"F32","shape":[0,3],"data_offsets":[4,4]},)"
          R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}  )",
          12));
  ASSERT_EQ(header.tensors.size(), 3);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[1].name, "empty");
  EXPECT_EQ(header.tensors[2].name, "b");
  EXPECT_EQ(header.metadata.at("format"), "1");
}

struct BadHeader {
  const char* json;
  const char* reason;
};

class BadHeaderTest : public testing::TestWithParam<BadHeader> {};

TEST_P(BadHeaderTest, IsRefusedWithItsReason) {
  EXPECT_THAT(
      ParseSafetensorsHeader(GetParam().json, 16),
      StatusIs(StatusCode::kInvalidArgument, HasSubstr(GetParam().reason)));
}

// Each is to fail for 16 bytes of data.
const BadHeader kCases[] = {
    {"", "not a JSON object"},
    {"{", "not a JSON object"},
    {"[]", "not a JSON object"},
    {"\xff\xfe", "not a JSON object"},
    {"{}", "need 0 bytes of data, the file has 16"},
    {R"({"a":3})", "tensor a: expected a JSON object"},
    {R"({"a":{"shape":[4],"data_offsets":[0,16]}})", "dtype is absent"},
    {R"({"a":{"dtype":"BF16","shape":[8],"data_offsets":[0,16]}})",
     R"(dtype is "BF16", expected "F32")"},
    {R"({"a":{"dtype":7,"shape":[4],"data_offsets":[0,16]}})", "dtype is 7"},
    {R"({"a":{"dtype":"F32","data_offsets":[0,16]}})", "shape must be"},
    {R"({"a":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}})",
     "shape must be"},
    {R"({"a":{"dtype":"F32","shape":[4.5],"data_offsets":[0,16]}})",
     "shape must be"},
    {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],)"
     R"("data_offsets":[0,0]}})",
     "impossible shape [4294967296, 4294967296]"},
    {R"({"a":{"dtype":"F32","shape":[4]}})", "data_offsets must"},
    {R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[16]}})",
     "data_offsets must"},
    {R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}})",
     "data_offsets must"},
    {R"({"a":{"dtype":"F32","shape":[4],)"
     R"("data_offsets":[18446744073709551600,18446744073709551615]}})",
     "data_offsets must"},
    {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,16]}})",
     "hold 16 bytes, shape [3] needs 12"},
    {R"({"a":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}})",
     "need 32 bytes of data, the file has 16 (truncated?)"},
    {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[4,16]}})",
     "tensor a begins at byte 4 of the data, expected 0"},
    {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},)"
     R"("b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
     "tensor b begins at byte 8 of the data, expected 12"},
    {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
     R"("a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
     "same name twice"},
    {R"({"__metadata__":{"a":1}})", "expected an object of"},
    {R"({"__metadata__":"a"})", "expected an object of"}};
INSTANTIATE_TEST_SUITE_P(All, BadHeaderTest, testing::ValuesIn(kCases));

TEST(SafetensorsHeaderTest, RefusesToWriteWhatItCouldNotRead) {
  const auto format = [](std::vector<TensorView> tensors,
                         std::map<std::string, std::string> metadata) {
    return FormatSafetensorsHeader(tensors, metadata);
  };
  EXPECT_THAT(format({{"a", {1}}, {"a", {1}}}, {}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("twice")));
  EXPECT_THAT(format({{"__metadata__", {1}}}, {}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("reserved")));
  EXPECT_THAT(format({{"a", {-1}}}, {}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("[-1]")));
  EXPECT_THAT(format({{"a\xff", {1}}}, {}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("UTF-8")));
  EXPECT_THAT(format({}, {{"k", "\xff"}}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("UTF-8")));
}

TEST(SafetensorsHeaderTest, PadsToEightBytes) {
  std::string name = "a";
  for (int i = 0; i < 8; ++i, name += 'a') {
    const std::vector<TensorView> tensors = {{name, {2, 3}}};
    ASSERT_OK_AND_ASSIGN(const std::string text,
                         FormatSafetensorsHeader(tensors, {}));
    EXPECT_EQ(text.size() % 8, 0);
    ASSERT_OK_AND_ASSIGN(const SafetensorsHeader header,
                         ParseSafetensorsHeader(text, 24));
    EXPECT_EQ(header.tensors[0].name, name);
    EXPECT_THAT(header.tensors[0].shape, ElementsAre(2, 3));
  }
}

}  // namespace
}  // namespace gimbal::io
