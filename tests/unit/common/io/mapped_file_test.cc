#include "common/io/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using testing::ElementsAre;
using testing::HasSubstr;

TEST(MappedFileTest, ShowsTheContentAlsoAfterMoves) {
  const TempDir dir;
  ASSERT_THAT(WriteFileAtomically(dir / "a", "abc"), IsOk());
  ASSERT_THAT(WriteFileAtomically(dir / "b", ""), IsOk());
  ASSERT_OK_AND_ASSIGN(MappedFile a, MappedFile::Open(dir / "a"));
  ASSERT_OK_AND_ASSIGN(MappedFile b, MappedFile::Open(dir / "b"));
  EXPECT_TRUE(b.bytes().empty());
  b = std::move(a);
  EXPECT_THAT(b.bytes(), ElementsAre('a', 'b', 'c'));
  EXPECT_EQ(b.path(), dir / "a");
}

TEST(MappedFileTest, WantsARegularFile) {
  const TempDir dir;
  EXPECT_THAT(MappedFile::Open(dir / "none"),
              StatusIs(StatusCode::kNotFound, HasSubstr(dir / "none")));
  EXPECT_THAT(MappedFile::Open(dir.path()),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr(dir.path())));
}

}  // namespace
}  // namespace gimbal::io
