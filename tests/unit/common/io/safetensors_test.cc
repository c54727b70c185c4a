#include "common/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <utility>

#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::io {
namespace {

using absl::StatusCode;
using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

using Shape = std::vector<int64_t>;

std::string Prefix(uint64_t header_bytes) {
  std::string prefix(8, '\0');
  std::memcpy(prefix.data(), &header_bytes, 8);
  return prefix;
}

TEST(SafetensorsTest, ReadsBackEveryBit) {
  const TempDir dir;
  const std::vector<float> z = {1.5f,
                                -0.0f,
                                std::numeric_limits<float>::quiet_NaN(),
                                std::numeric_limits<float>::denorm_min(),
                                std::numeric_limits<float>::infinity(),
                                3e38f};
  const float scalar = 7.0f;
  const std::vector<TensorView> tensors = {{"z", {2, 3}, z.data()},
                                           {"none", {0, 5}, nullptr},
                                           {"a.scalar", {}, &scalar}};
  ASSERT_OK_AND_ASSIGN(
      const WrittenFile written,
      WriteSafetensors(dir / "sub/x.safetensors", tensors, {{"step", "7"}}));
  EXPECT_EQ(written.bytes,
            std::filesystem::file_size(dir / "sub/x.safetensors"));
  ASSERT_OK_AND_ASSIGN(const std::string hash,
                       Sha256OfFile(dir / "sub/x.safetensors"));
  EXPECT_EQ(written.sha256, hash);
  EXPECT_FALSE(std::filesystem::exists(dir / "sub/x.safetensors.tmp"));

  ASSERT_OK_AND_ASSIGN(SafetensorsFile opened,
                       SafetensorsFile::Open(dir / "sub/x.safetensors"));
  const SafetensorsFile file = std::move(opened);
  EXPECT_THAT(file.names(), ElementsAre("z", "none", "a.scalar"));
  EXPECT_THAT(file.metadata(), ElementsAre(Pair("step", "7")));
  std::vector<float> back(6);
  EXPECT_THAT(file.Read("z", Shape{2, 3}, back.data()), IsOk());
  EXPECT_EQ(std::memcmp(back.data(), z.data(), 6 * sizeof(float)), 0);
  EXPECT_THAT(file.Read("a.scalar", {}, back.data()), IsOk());
  EXPECT_EQ(back[0], 7.0f);
  EXPECT_THAT(file.Read("none", Shape{0, 5}, nullptr), IsOk());
}

TEST(SafetensorsTest, TheSameFromItsContent) {
  const TempDir dir;
  const std::vector<float> data = {1, 2, 3};
  const std::vector<TensorView> tensors = {{"a", {3}, data.data()}};
  std::string content;
  ASSERT_OK_AND_ASSIGN(
      const WrittenFile formatted,
      FormatSafetensors("x", tensors, {}, [&](const void* bytes, size_t size) {
        content.append(static_cast<const char*>(bytes), size);
        return absl::OkStatus();
      }));
  ASSERT_OK_AND_ASSIGN(const WrittenFile written,
                       WriteSafetensors(dir / "x", tensors, {}));
  EXPECT_EQ(formatted.sha256, written.sha256);
  EXPECT_EQ(*ReadFile(dir / "x"), content);
  ASSERT_OK_AND_ASSIGN(const SafetensorsFile file,
                       SafetensorsFile::FromContent("far/x", content));
  std::vector<float> back(3);
  EXPECT_THAT(file.Read("a", Shape{3}, back.data()), IsOk());
  EXPECT_EQ(back, data);
  EXPECT_THAT(SafetensorsFile::FromContent("far/x", content.substr(0, 20)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("far/x")));
  EXPECT_THAT(FormatSafetensors("x", tensors, {},
                                [](const void*, size_t) {
                                  return absl::DataLossError("full");
                                }),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("full")));
}

TEST(SafetensorsTest, WritesTheSameBytesForTheSameTensors) {
  const TempDir dir;
  const std::vector<float> data(3'000'000, 0.25f);
  const std::vector<TensorView> tensors = {{"a", {3'000'000}, data.data()}};
  ASSERT_OK_AND_ASSIGN(const WrittenFile one,
                       WriteSafetensors(dir / "one", tensors, {{"k", "v"}}));
  ASSERT_OK_AND_ASSIGN(const WrittenFile two,
                       WriteSafetensors(dir / "two", tensors, {{"k", "v"}}));
  EXPECT_EQ(one.sha256, two.sha256);
  EXPECT_EQ(one.bytes, two.bytes);
}

TEST(SafetensorsTest, NamesWhatCannotBeRead) {
  const TempDir dir;
  const float data[6] = {};
  const std::vector<TensorView> tensors = {{"a", {2, 3}, data}};
  ASSERT_THAT(WriteSafetensors(dir / "x", tensors, {}), IsOk());
  ASSERT_OK_AND_ASSIGN(const SafetensorsFile file,
                       SafetensorsFile::Open(dir / "x"));
  float out[6];
  EXPECT_THAT(file.Read("b", Shape{2, 3}, out),
              StatusIs(StatusCode::kNotFound, HasSubstr("no tensor b")));
  EXPECT_THAT(file.Read("a", Shape{3, 2}, out),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(dir / "x"), HasSubstr("[2, 3]"),
                             HasSubstr("[3, 2]"))));
}

TEST(SafetensorsTest, RefusesMalformedFiles) {
  const TempDir dir;
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const std::string good = Prefix(header.size()) + header + "01234567";
  const std::string path = dir / "x";
  ASSERT_THAT(WriteFileAtomically(path, good), IsOk());
  ASSERT_THAT(SafetensorsFile::Open(path), IsOk());

  const std::pair<std::string, std::string> bad[] = {
      {"", "only 0 bytes"},
      {good.substr(0, 7), "only 7 bytes"},
      {Prefix(header.size() + 9) + header + "01234567", "header of"},
      {Prefix(UINT64_MAX) + header, "header of 18446744073709551615 bytes"},
      {Prefix(0), "not a JSON object"},
      {Prefix(header.size() - 1) + header + "01234567", "not a JSON object"},
      {good + "8", "need 8 bytes of data, the file has 9"},
  };
  for (const auto& [content, reason] : bad) {
    ASSERT_THAT(WriteFileAtomically(path, content), IsOk());
    EXPECT_THAT(SafetensorsFile::Open(path),
                StatusIs(StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(path), HasSubstr(reason))));
  }
  // A file cut anywhere is refused.
  for (size_t size = 0; size < good.size(); ++size) {
    ASSERT_THAT(WriteFileAtomically(path, good.substr(0, size)), IsOk());
    EXPECT_THAT(SafetensorsFile::Open(path),
                StatusIs(StatusCode::kInvalidArgument))
        << size;
  }
  EXPECT_THAT(SafetensorsFile::Open(dir / "none"),
              StatusIs(StatusCode::kNotFound, HasSubstr("none")));
}

// A sparse file stands in for one of real size.
TEST(SafetensorsTest, ReadsBehindFourGigabytes) {
  const TempDir dir;
  const std::string header = R"({"big":{"dtype":"F32","shape":[1073741828],)"
                             R"("data_offsets":[0,4294967312]},)"
                             R"("end":{"dtype":"F32","shape":[2],)"
                             R"("data_offsets":[4294967312,4294967320]}})";
  const float expected[2] = {1.25f, -3.0f};
  std::ofstream file(dir / "x", std::ios::binary);
  file << Prefix(header.size()) << header;
  file.seekp(4294967312, std::ios::cur);
  file.write(reinterpret_cast<const char*>(expected), sizeof(expected));
  file.close();
  ASSERT_TRUE(file.good());

  ASSERT_OK_AND_ASSIGN(const SafetensorsFile opened,
                       SafetensorsFile::Open(dir / "x"));
  float out[2] = {};
  EXPECT_THAT(opened.Read("end", Shape{2}, out), IsOk());
  EXPECT_THAT(out, ElementsAre(1.25f, -3.0f));
}

TEST(SafetensorsTest, WritesNothingOnError) {
  const TempDir dir;
  const float data[2] = {};
  const std::vector<TensorView> twice = {{"a", {1}, data}, {"a", {1}, data}};
  EXPECT_THAT(WriteSafetensors(dir / "x", twice, {}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr(dir / "x")));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  ASSERT_THAT(WriteFileAtomically(dir / "file", ""), IsOk());
  const std::vector<TensorView> tensors = {{"a", {2}, data}};
  EXPECT_FALSE(WriteSafetensors(dir / "file/x", tensors, {}).ok());
}

}  // namespace
}  // namespace gimbal::io
