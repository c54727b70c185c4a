#include "common/io/draft_folder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

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

TEST(DraftFolder, AppearsWhenItIsCommitted) {
  TempDir dir;
  ASSERT_OK_AND_ASSIGN(DraftFolder draft, DraftFolder::Make(dir / "x/new/"));
  ASSERT_THAT(WriteFileAtomically(draft.path() + "/a", "text"), IsOk());
  EXPECT_FALSE(fs::exists(dir / "x/new"));
  ASSERT_THAT(draft.Commit(), IsOk());
  EXPECT_EQ(*ReadFile(dir / "x/new/a"), "text");
}

TEST(DraftFolder, IsGoneWithoutACommit) {
  TempDir dir;
  {
    ASSERT_OK_AND_ASSIGN(DraftFolder draft, DraftFolder::Make(dir / "new"));
    const DraftFolder moved = std::move(draft);
    ASSERT_THAT(WriteFileAtomically(moved.path() + "/a", "text"), IsOk());
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(DraftFolder, TakesNobodysPlace) {
  TempDir dir;
  ASSERT_THAT(WriteFileAtomically(dir / "a", "text"), IsOk());
  EXPECT_THAT(DraftFolder::Make(dir / "a"),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(dir / "a")));
}

}  // namespace
}  // namespace gimbal::io
