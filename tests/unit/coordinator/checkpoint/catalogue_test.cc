#include "coordinator/checkpoint/catalogue.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/io/file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace gimbal::coordinator {
namespace {

namespace fs = std::filesystem;
using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kLayer[] = "layers/layer-000.safetensors";

// Writes what the workers would, and returns its manifest.
Manifest WriteFiles(const Catalogue& catalogue, int64_t update) {
  const std::string content = "weights of " + std::to_string(update);
  const std::string path = catalogue.Folder(update) + "/" + kLayer;
  EXPECT_THAT(io::WriteFileAtomically(path, content), IsOk());
  Manifest manifest{.run_id = "r", .update = update, .layers = 1};
  v1::CheckpointFile& file = manifest.files.emplace_back();
  file.set_path(kLayer);
  file.set_bytes(static_cast<int64_t>(content.size()));
  file.set_sha256(io::Sha256(content));
  return manifest;
}

void Commit(const Catalogue& catalogue, int64_t update) {
  ASSERT_THAT(catalogue.Commit(WriteFiles(catalogue, update)), IsOk());
}

void FlipAByte(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.put('X');
}

TEST(Catalogue, AFolderCountsFromItsCommitOn) {
  TempDir dir;
  const Catalogue catalogue(dir.path(), "r", 3);
  EXPECT_EQ(FindNewestGood(dir.path()).update, 0);
  const Manifest manifest = WriteFiles(catalogue, 200);
  EXPECT_EQ(FindNewestGood(dir.path()).update, 0);
  ASSERT_THAT(catalogue.Commit(manifest), IsOk());
  EXPECT_EQ(FindNewestGood(dir.path()).update, 200);
  EXPECT_EQ(*io::ReadFile(dir / "latest"), "step-00000200\n");
  EXPECT_THAT(VerifyCheckpoint(catalogue.Folder(200)), IsOk());
}

TEST(Catalogue, RefusesToCommitWhatIsNotThere) {
  TempDir dir;
  const Catalogue catalogue(dir.path(), "r", 3);
  Manifest manifest = WriteFiles(catalogue, 200);
  manifest.files[0].set_bytes(manifest.files[0].bytes() + 1);
  EXPECT_THAT(catalogue.Commit(manifest),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr(kLayer)));
  manifest.files[0].set_path("layers/layer-001.safetensors");
  EXPECT_THAT(catalogue.Commit(manifest),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("layer-001")));
  EXPECT_THAT(CommittedCheckpoints(dir.path()), IsEmpty());
  EXPECT_FALSE(fs::exists(dir / "latest"));
}

TEST(Catalogue, KeepsTheNewest) {
  TempDir dir;
  const Catalogue catalogue(dir.path(), "r", 2);
  for (int64_t update : {100, 200, 300}) Commit(catalogue, update);
  EXPECT_THAT(CommittedCheckpoints(dir.path()), ElementsAre(200, 300));
  EXPECT_FALSE(fs::exists(catalogue.Folder(100)));
}

TEST(Catalogue, RemovesWhatIsVoid) {
  TempDir dir;
  const Catalogue catalogue(dir.path(), "r", 9);
  for (int64_t update : {100, 200, 300}) Commit(catalogue, update);
  WriteFiles(catalogue, 400);
  EXPECT_EQ(*catalogue.RemoveAfter(200), true);
  EXPECT_THAT(CommittedCheckpoints(dir.path()), ElementsAre(100, 200));
  EXPECT_TRUE(fs::exists(catalogue.Folder(400))) << "may be written just now";
  EXPECT_EQ(*catalogue.RemoveAfter(99), false);
  EXPECT_THAT(CommittedCheckpoints(dir.path()), IsEmpty());
}

TEST(Catalogue, KeepsTheOrigin) {
  TempDir dir;
  const Catalogue catalogue(dir.path(), "r", 1, /*origin=*/100);
  for (int64_t update : {100, 200, 300}) Commit(catalogue, update);
  EXPECT_THAT(CommittedCheckpoints(dir.path()), ElementsAre(100, 300));
}

TEST(Catalogue, FallsBackAndNamesTheBadFile) {
  TempDir dir;
  const Catalogue catalogue(dir.path(), "r", 5);
  for (int64_t update : {100, 200, 300, 400}) Commit(catalogue, update);
  FlipAByte(catalogue.Folder(400) + "/" + kLayer);
  fs::resize_file(catalogue.Folder(300) + "/" + kLayer, 3);
  fs::remove(catalogue.Folder(200) + "/manifest.json");
  const NewestGood newest = FindNewestGood(dir.path());
  EXPECT_EQ(newest.update, 100);
  ASSERT_THAT(newest.passed_over, SizeIs(3));
  EXPECT_THAT(std::string(newest.passed_over[0].message()),
              HasSubstr("step-00000400/layers/layer-000.safetensors: has "
                        "sha256"));
  EXPECT_THAT(std::string(newest.passed_over[1].message()),
              HasSubstr("step-00000300/layers/layer-000.safetensors: has 3 "
                        "bytes"));
  EXPECT_THAT(std::string(newest.passed_over[2].message()),
              HasSubstr("step-00000200/manifest.json"));
}

// A damaged newer checkpoint must not push the good one out.
TEST(Catalogue, PruningNeverTakesTheNewestGoodOne) {
  TempDir dir;
  const Catalogue catalogue(dir.path(), "r", 1);
  Commit(catalogue, 400);
  FlipAByte(catalogue.Folder(400) + "/" + kLayer);
  Commit(catalogue, 250);
  EXPECT_THAT(CommittedCheckpoints(dir.path()), ElementsAre(250));
  EXPECT_EQ(FindNewestGood(dir.path()).update, 250);
}

TEST(Catalogue, RemovesLeftoversOnly) {
  TempDir dir;
  const Catalogue catalogue(dir.path(), "r", 3);
  Commit(catalogue, 100);
  WriteFiles(catalogue, 200);
  ASSERT_THAT(io::WriteFileAtomically(dir / "notes/mine.txt", "keep"), IsOk());
  ASSERT_THAT(catalogue.RemoveLeftovers(), IsOk());
  EXPECT_TRUE(fs::exists(catalogue.Folder(100)));
  EXPECT_FALSE(fs::exists(catalogue.Folder(200)));
  EXPECT_TRUE(fs::exists(dir / "notes/mine.txt"));
}

// Two runs once shared a folder: the second one "completed" at the first one's
// last checkpoint, and each removed the other's.
TEST(Catalogue, AnotherRunsCheckpointsAreNeitherUsedNorRemoved) {
  TempDir dir;
  const Catalogue mine(dir.path(), "r", 1);
  Manifest theirs = WriteFiles(mine, 300);
  theirs.run_id = "other";
  ASSERT_THAT(mine.Commit(theirs), IsOk());
  Commit(mine, 100);
  Commit(mine, 200);
  EXPECT_THAT(CommittedCheckpoints(dir.path()), ElementsAre(200, 300));
  const NewestGood newest = FindNewestGood(dir.path(), "r");
  EXPECT_EQ(newest.update, 200);
  EXPECT_THAT(newest.passed_over, IsEmpty());
  EXPECT_EQ(FindNewestGood(dir.path()).update, 300);
}

TEST(Catalogue, AFolderIsClaimedByOneRun) {
  TempDir dir;
  EXPECT_THAT(CheckUnused(dir.path()), IsOk());
  EXPECT_THAT(CheckUnused(dir / "missing"), IsOk());
  const Catalogue mine(dir.path(), "r", 1);
  EXPECT_THAT(mine.Claim(), IsOk());
  EXPECT_THAT(mine.Claim(), IsOk());
  EXPECT_THAT(
      CheckUnused(dir.path()),
      StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("another run (r)")));
  EXPECT_THAT(Catalogue(dir.path(), "s", 1).Claim(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("of run r, expected those of s")));
}

// A folder of an earlier release has no name in it, but manifests.
TEST(Catalogue, ManifestsClaimAFolderToo) {
  TempDir dir;
  const Catalogue mine(dir.path(), "r", 1);
  Commit(mine, 100);
  EXPECT_THAT(
      CheckUnused(dir.path()),
      StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("step-00000100")));
  EXPECT_THAT(Catalogue(dir.path(), "s", 1).Claim(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(mine.Claim(), IsOk());
}

TEST(Catalogue, ACheckpointThatWasGivenUpGoesWithTheNextCommit) {
  TempDir dir;
  const Catalogue catalogue(dir.path(), "r", 3);
  WriteFiles(catalogue, 100);  // never whole
  WriteFiles(catalogue, 300);  // being written
  Commit(catalogue, 200);
  EXPECT_FALSE(fs::exists(catalogue.Folder(100)));
  EXPECT_TRUE(fs::exists(catalogue.Folder(300)));
}

TEST(Catalogue, WhatFailsAfterCommitIsOnlyAWarning) {
  TempDir dir;
  const Catalogue catalogue(dir.path(), "r", 3);
  // In the way of `latest`.
  ASSERT_THAT(io::WriteFileAtomically(dir / "latest/x", ""), IsOk());
  EXPECT_THAT(catalogue.Commit(WriteFiles(catalogue, 100)), IsOk());
  EXPECT_EQ(FindNewestGood(dir.path(), "r").update, 100);
}

TEST(Catalogue, ACommitCanBeRepeated) {
  TempDir dir;
  const Catalogue catalogue(dir.path(), "r", 3);
  Commit(catalogue, 100);
  Commit(catalogue, 100);
  EXPECT_EQ(FindNewestGood(dir.path()).update, 100);
}

}  // namespace
}  // namespace gimbal::coordinator
