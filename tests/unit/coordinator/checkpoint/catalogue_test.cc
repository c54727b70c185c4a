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
  const Catalogue catalogue(dir.path(), 3);
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
  const Catalogue catalogue(dir.path(), 3);
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
  const Catalogue catalogue(dir.path(), 2);
  for (int64_t update : {100, 200, 300}) Commit(catalogue, update);
  EXPECT_THAT(CommittedCheckpoints(dir.path()), ElementsAre(200, 300));
  EXPECT_FALSE(fs::exists(catalogue.Folder(100)));
}

TEST(Catalogue, FallsBackAndNamesTheBadFile) {
  TempDir dir;
  const Catalogue catalogue(dir.path(), 5);
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
  const Catalogue catalogue(dir.path(), 1);
  Commit(catalogue, 400);
  FlipAByte(catalogue.Folder(400) + "/" + kLayer);
  Commit(catalogue, 250);
  EXPECT_THAT(CommittedCheckpoints(dir.path()), ElementsAre(250));
  EXPECT_EQ(FindNewestGood(dir.path()).update, 250);
}

TEST(Catalogue, RemovesLeftoversOnly) {
  TempDir dir;
  const Catalogue catalogue(dir.path(), 3);
  Commit(catalogue, 100);
  WriteFiles(catalogue, 200);
  ASSERT_THAT(io::WriteFileAtomically(dir / "notes/mine.txt", "keep"), IsOk());
  ASSERT_THAT(catalogue.RemoveLeftovers(), IsOk());
  EXPECT_TRUE(fs::exists(catalogue.Folder(100)));
  EXPECT_FALSE(fs::exists(catalogue.Folder(200)));
  EXPECT_TRUE(fs::exists(dir / "notes/mine.txt"));
}

TEST(Catalogue, ACommitCanBeRepeated) {
  TempDir dir;
  const Catalogue catalogue(dir.path(), 3);
  Commit(catalogue, 100);
  Commit(catalogue, 100);
  EXPECT_EQ(FindNewestGood(dir.path()).update, 100);
}

}  // namespace
}  // namespace gimbal::coordinator
