#include "common/io/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::io {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using testing::HasSubstr;

TEST(AtomicFileTest, AppearsOnlyAtCommit) {
  const TempDir dir;
  const std::string path = dir / "a/b/file";
  ASSERT_OK_AND_ASSIGN(AtomicFile file, AtomicFile::Create(path));
  EXPECT_THAT(file.Append("one "), IsOk());
  EXPECT_THAT(file.Append("two"), IsOk());
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_THAT(file.Commit(), IsOk());
  ASSERT_OK_AND_ASSIGN(const std::string content, ReadFile(path));
  EXPECT_EQ(content, "one two");
}

TEST(AtomicFileTest, LeavesNothingWithoutCommit) {
  const TempDir dir;
  {
    ASSERT_OK_AND_ASSIGN(AtomicFile file, AtomicFile::Create(dir / "file"));
    EXPECT_THAT(file.Append("lost"), IsOk());
    const AtomicFile moved = std::move(file);
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(AtomicFileTest, KeepsTheOldContentUntilCommit) {
  const TempDir dir;
  const std::string path = dir / "file";
  ASSERT_THAT(WriteFileAtomically(path, "old"), IsOk());
  {
    ASSERT_OK_AND_ASSIGN(AtomicFile file, AtomicFile::Create(path));
    EXPECT_THAT(file.Append("new"), IsOk());
  }
  ASSERT_OK_AND_ASSIGN(const std::string content, ReadFile(path));
  EXPECT_EQ(content, "old");
}

TEST(AtomicFileTest, NamesPathAndReasonWhenTheTargetIsAFolder) {
  const TempDir dir;
  ASSERT_THAT(MakeFolders(dir / "taken/inside"), IsOk());
  ASSERT_OK_AND_ASSIGN(AtomicFile file, AtomicFile::Create(dir / "taken"));
  const absl::Status status = file.Commit();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(dir / "taken"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("directory"));
}

TEST(AtomicFileTest, NamesPathAndReasonWhenTheDiskIsFull) {
  const TempDir dir;
  // Every write to /dev/full fails as on a full disk.
  std::filesystem::create_symlink("/dev/full", dir / "file.tmp");
  ASSERT_OK_AND_ASSIGN(AtomicFile file, AtomicFile::Create(dir / "file"));
  EXPECT_THAT(file.Append("x"), StatusIs(absl::StatusCode::kResourceExhausted,
                                         HasSubstr(dir / "file")));
}

}  // namespace
}  // namespace gimbal::io
