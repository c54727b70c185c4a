// Through RunFolder::Take, as a coordinator does.
#include "coordinator/layout/go_over.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/config/run_config_io.h"
#include "common/io/file.h"
#include "coordinator/checkpoint/catalogue.h"
#include "coordinator/store/run_folder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/coordinator/layout/trained_folder.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<RunFolder> Resume(const std::string& run_dir,
                                 const v1::RunConfig& config) {
  return RunFolder::Take(run_dir, config, kTrainedData, true);
}

// What is in the folder after it went over to two stages.
void ExpectTwoStagesFrom(RunFolder& folder, int64_t origin) {
  EXPECT_EQ(folder.config.pipeline().stages(), 2);
  EXPECT_EQ(folder.config.pipeline().origin(), origin);
  const std::string yaml = config::ToYaml(folder.config);
  EXPECT_EQ(*io::ReadFile(folder.run_dir + "/config.yaml"), yaml);
  EXPECT_EQ(folder.identity.config_yaml, yaml);
  EXPECT_EQ(folder.identity.config_digest, config::ConfigDigest(folder.config));
  EXPECT_EQ(*folder.store->Identity(), folder.identity);
  const std::string what =
      "2 stages from update " + std::to_string(origin + 1) + " on, before 4";
  EXPECT_EQ(folder.store->Decisions(1)->front().what, what);
  EXPECT_THAT(*io::ReadFile(folder.run_dir + "/events.jsonl"), HasSubstr(what));
}

TEST(GoOver, TakesPlaceAtTheNewestGoodCheckpoint) {
  TempDir dir;
  const std::string run_id = MakeTrainedFolder(dir.path(), {10, 20, 25});
  Damage(dir.path(), 25);
  ASSERT_OK_AND_ASSIGN(RunFolder folder, Resume(dir.path(), TrainedConfig(2)));
  ExpectTwoStagesFrom(folder, 20);
  EXPECT_EQ(folder.identity.run_id, run_id);
  EXPECT_EQ(folder.metrics.Keep(20)->size(), 20u);
  EXPECT_THAT(folder.metrics.Keep(21), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(CommittedCheckpoints(dir / "checkpoints"), ElementsAre(10, 20))
      << "the damaged one is of the former stages";
  EXPECT_THAT(folder.store->RefreshChanges()->front().periods,
              ElementsAre(7, 7));
  EXPECT_EQ(*folder.store->Count("generation"), 1)
      << "what workers hold of the former stages counts no more";
}

TEST(GoOver, HappensOnce) {
  TempDir dir;
  MakeTrainedFolder(dir.path(), {10, 20});
  ASSERT_THAT(Resume(dir.path(), TrainedConfig(2)), IsOk());
  ASSERT_OK_AND_ASSIGN(const RunFolder again,
                       Resume(dir.path(), TrainedConfig(2)));
  EXPECT_EQ(again.config.pipeline().origin(), 20);
  EXPECT_EQ(again.store->Decisions(9)->size(), 2u) << "with the numerics";
}

TEST(GoOver, IsFinishedWhenItWasKilledBetweenItsTwoFiles) {
  TempDir dir;
  MakeTrainedFolder(dir.path(), {10, 20});
  const auto half = TrainedConfig(2, {"pipeline.origin=20"});
  ASSERT_THAT(
      io::WriteFileAtomically(dir / "config.yaml", config::ToYaml(half)),
      IsOk());
  {
    // Whoever wants the former stages after all goes on as if nothing had been.
    ASSERT_OK_AND_ASSIGN(
        const RunFolder folder,
        Resume(dir.path(), TrainedConfig(4, {"pipeline.origin=20"})));
    EXPECT_EQ(folder.config.pipeline().origin(), 0);
  }
  ASSERT_OK_AND_ASSIGN(RunFolder folder, Resume(dir.path(), half));
  ExpectTwoStagesFrom(folder, 20);
}

TEST(GoOver, WithoutACheckpointTheRunBeginsAnew) {
  TempDir dir;
  MakeTrainedFolder(dir.path(), {});
  ASSERT_OK_AND_ASSIGN(RunFolder folder, Resume(dir.path(), TrainedConfig(2)));
  ExpectTwoStagesFrom(folder, 0);
}

TEST(GoOver, ChangesNothingWhenNothingGoodIsLeft) {
  TempDir dir;
  MakeTrainedFolder(dir.path(), {10});
  Damage(dir.path(), 10);
  const std::string before = *io::ReadFile(dir / "config.yaml");
  EXPECT_THAT(Resume(dir.path(), TrainedConfig(2)),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("other stages"), HasSubstr("10"))));
  EXPECT_EQ(*io::ReadFile(dir / "config.yaml"), before);
  ASSERT_OK_AND_ASSIGN(RunFolder folder, Resume(dir.path(), TrainedConfig(4)));
  EXPECT_EQ(folder.identity.config_yaml, before);
  EXPECT_EQ(folder.metrics.Keep(25)->size(), 25u);
}

TEST(GoOver, ARunDoesNotBeginWithAnOrigin) {
  TempDir dir;
  EXPECT_THAT(
      RunFolder::Take(dir.path(), TrainedConfig(2, {"pipeline.origin=20"}),
                      kTrainedData, false),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("pipeline.origin")));
}

}  // namespace
}  // namespace gimbal::coordinator
