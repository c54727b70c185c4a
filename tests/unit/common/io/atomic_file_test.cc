#include "common/io/atomic_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
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

// A process that was stopped while it wrote, and its replacement, once shared
// one file.
TEST(AtomicFileTest, AnOlderWriterThatWakesUpChangesNothing) {
  for (const bool wakes_late : {false, true}) {
    const TempDir dir;
    const std::string path = dir / "file";
    ASSERT_OK_AND_ASSIGN(AtomicFile old, AtomicFile::Create(path));
    std::optional<AtomicFile> stopped(std::move(old));
    EXPECT_THAT(stopped->Append("old"), IsOk());
    ASSERT_OK_AND_ASSIGN(AtomicFile newer, AtomicFile::Create(path));
    EXPECT_THAT(newer.Append("new, "), IsOk());
    const auto wake_up = [&] {
      EXPECT_THAT(stopped->Append("older still"), IsOk());
      EXPECT_THAT(stopped->Commit(), StatusIs(absl::StatusCode::kAborted,
                                              HasSubstr("another writer")));
      stopped.reset();
    };
    if (!wakes_late) wake_up();
    EXPECT_THAT(newer.Append("whole"), IsOk());
    EXPECT_THAT(newer.Commit(), IsOk());
    if (wakes_late) wake_up();
    EXPECT_EQ(*ReadFile(path), "new, whole");
  }
}

TEST(AtomicFileTest, WhatAKilledWriterLeftIsReplaced) {
  const TempDir dir;
  std::ofstream(dir / "file.tmp") << "much more than what comes now";
  ASSERT_THAT(WriteFileAtomically(dir / "file", "short"), IsOk());
  EXPECT_EQ(*ReadFile(dir / "file"), "short");
  EXPECT_FALSE(std::filesystem::exists(dir / "file.tmp"));
}

// Root once had a file in the place of /dev/null.
TEST(AtomicFileTest, WhatIsNoFileStaysWhatItIs) {
  const TempDir dir;
  const std::string pipe = dir / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const UniqueFd reader(open(pipe.c_str(), O_RDONLY | O_NONBLOCK));
  ASSERT_THAT(WriteFileAtomically(pipe, "through it"), IsOk());
  char text[32] = {};
  EXPECT_EQ(read(reader.get(), text, sizeof text), 10);
  EXPECT_EQ(std::string(text), "through it");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  // Nor is it removed when nothing comes of it.
  EXPECT_TRUE(AtomicFile::Create(pipe).ok());
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST(AtomicFileTest, FollowsALinkToItsFile) {
  const TempDir dir;
  ASSERT_THAT(WriteFileAtomically(dir / "a/file", "old"), IsOk());
  std::filesystem::create_symlink("a/file", dir / "link");
  ASSERT_THAT(WriteFileAtomically(dir / "link", "new"), IsOk());
  EXPECT_TRUE(std::filesystem::is_symlink(dir / "link"));
  EXPECT_EQ(*ReadFile(dir / "a/file"), "new");
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
