#include "common/io/copy_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::io {
namespace {

namespace fs = std::filesystem;
using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using ::testing::HasSubstr;

TEST(CopyFile, MakesTheFolderAndAFileOfItsOwn) {
  TempDir dir;
  ASSERT_THAT(WriteFileAtomically(dir / "a", "text"), IsOk());
  ASSERT_THAT(CopyFile(dir / "a", dir / "x/y/b"), IsOk());
  EXPECT_EQ(*ReadFile(dir / "x/y/b"), "text");
  EXPECT_EQ(fs::hard_link_count(dir / "a"), 1u);
}

TEST(CopyFile, NamesWhatIsMissingOrThere) {
  TempDir dir;
  EXPECT_THAT(CopyFile(dir / "a", dir / "b"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(dir / "a")));
  ASSERT_THAT(WriteFileAtomically(dir / "a", "text"), IsOk());
  ASSERT_THAT(WriteFileAtomically(dir / "b", "other"), IsOk());
  EXPECT_THAT(CopyFile(dir / "a", dir / "b"),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(dir / "b")));
  EXPECT_EQ(*ReadFile(dir / "b"), "other");
}

TEST(LinkOrCopyFile, AReplacedFileLeavesTheOtherName) {
  TempDir dir;
  ASSERT_THAT(WriteFileAtomically(dir / "a", "text"), IsOk());
  ASSERT_THAT(LinkOrCopyFile(dir / "a", dir / "b"), IsOk());
  ASSERT_THAT(WriteFileAtomically(dir / "a", "new"), IsOk());
  EXPECT_EQ(*ReadFile(dir / "b"), "text");
}

}  // namespace
}  // namespace gimbal::io
