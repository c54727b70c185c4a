#include "common/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::io {
namespace {

using absl::StatusCode;
using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using testing::AllOf;
using testing::HasSubstr;

TEST(FileTest, ReadsBackWhatItWrites) {
  const TempDir dir;
  std::string content(1'000'000, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = char(i * 7 % 251);
  ASSERT_THAT(WriteFileAtomically(dir / "sub/file", content), IsOk());
  ASSERT_OK_AND_ASSIGN(const std::string read, ReadFile(dir / "sub/file"));
  EXPECT_EQ(read, content);
  EXPECT_FALSE(std::filesystem::exists(dir / "sub/file.tmp"));
}

TEST(FileTest, NamesTheMissingFile) {
  EXPECT_THAT(ReadFile("/nowhere/file"),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr("/nowhere/file"),
                             HasSubstr("No such file or directory"))));
}

TEST(FileTest, ReadsNoFolder) {
  const TempDir dir;
  const auto result = ReadFile(dir.path());
  EXPECT_FALSE(result.ok());
  EXPECT_THAT(std::string(result.status().message()), HasSubstr(dir.path()));
}

TEST(FileTest, MakesNoFolderInAFile) {
  const TempDir dir;
  ASSERT_THAT(WriteFileAtomically(dir / "file", ""), IsOk());
  for (const char* path : {"file", "file/", "file/sub"}) {
    EXPECT_FALSE(MakeFolders(dir / path).ok()) << path;
    EXPECT_FALSE(CheckWritable(dir / path).ok()) << path;
  }
  EXPECT_FALSE(WriteFileAtomically(dir / "file/sub", "x").ok());
}

TEST(FileTest, MakesFoldersAgain) {
  const TempDir dir;
  EXPECT_THAT(MakeFolders(dir / "a/b/"), IsOk());
  EXPECT_THAT(MakeFolders(dir / "a/b"), IsOk());
}

TEST(FileTest, CheckWritableLeavesNothingButTheFolder) {
  const TempDir dir;
  EXPECT_THAT(CheckWritable(dir / "run"), IsOk());
  EXPECT_TRUE(std::filesystem::is_empty(dir / "run"));
}

TEST(FileTest, CheckWritableNamesTheFolder) {
  EXPECT_FALSE(CheckWritable("/proc/self").ok());
  EXPECT_THAT(std::string(CheckWritable("/proc/self").message()),
              HasSubstr("/proc/self"));
}

TEST(FileTest, HashesFilesAndText) {
  const TempDir dir;
  const std::string content(700'000, 'a');
  ASSERT_THAT(WriteFileAtomically(dir / "file", content), IsOk());
  ASSERT_OK_AND_ASSIGN(const std::string hash, Sha256OfFile(dir / "file"));
  EXPECT_EQ(hash, Sha256(content));
  EXPECT_EQ(Sha256(""),
            "e3b0c44298fc1c149afbf4c8996fb924"
            "27ae41e4649b934ca495991b7852b855");
  EXPECT_THAT(Sha256OfFile(dir / "none"),
              StatusIs(StatusCode::kNotFound, HasSubstr("none")));
}

}  // namespace
}  // namespace gimbal::io
