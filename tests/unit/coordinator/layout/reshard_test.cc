#include "coordinator/layout/reshard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/config/run_config_io.h"
#include "common/io/file.h"
#include "coordinator/checkpoint/catalogue.h"
#include "coordinator/run/run_controller.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/coordinator/layout/trained_folder.h"

namespace gimbal::coordinator {
namespace {

using absl::StatusCode;
using test_support::IsOk;
using test_support::StatusIs;
using test_support::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ReshardTest : public ::testing::Test {
 protected:
  ReshardTest() {
    options_ = {.run_dir = dir_ / "run", .out = dir_ / "new", .stages = 2};
  }

  TempDir dir_;
  ReshardOptions options_;
};

TEST_F(ReshardTest, TheNewFolderIsARunOfItsOwn) {
  const std::string run_id = MakeTrainedFolder(dir_ / "run", {10, 20});
  const std::vector<std::string> before = FilesBelow(dir_ / "run");
  ASSERT_OK_AND_ASSIGN(const Resharded made, Reshard(options_));
  EXPECT_EQ(made.update, 20);
  EXPECT_EQ(made.decision, "2 stages from update 21 on, before 4");
  EXPECT_THAT(FilesBelow(dir_ / "new"),
              ElementsAre("checkpoints/latest", "checkpoints/run",
                          "checkpoints/step-00000020/COMMIT",
                          "checkpoints/step-00000020/layers/"
                          "layer-000.safetensors",
                          "checkpoints/step-00000020/manifest.json",
                          "checkpoints/step-00000020/optimizer/"
                          "layer-000.safetensors",
                          "config.yaml", "coordinator.db", "events.jsonl",
                          "metrics.jsonl"));
  EXPECT_EQ(FilesBelow(dir_ / "run"), before);
  EXPECT_THAT(FilesBelow(dir_.path()),
              Not(testing::Contains(HasSubstr("draft"))));

  ASSERT_OK_AND_ASSIGN(const v1::RunConfig config,
                       config::LoadRunConfig(dir_ / "new/config.yaml", {}));
  EXPECT_EQ(config.pipeline().stages(), 2);
  EXPECT_EQ(config.pipeline().origin(), 20);
  ASSERT_OK_AND_ASSIGN(
      RunFolder folder,
      RunFolder::Take(dir_ / "new", TrainedConfig(2), kTrainedData, true));
  EXPECT_NE(folder.identity.run_id, run_id);
  EXPECT_EQ(folder.config.pipeline().origin(), 20);
  EXPECT_EQ(
      FindNewestGood(dir_ / "new/checkpoints", folder.identity.run_id).update,
      20);
  EXPECT_EQ(folder.metrics.Keep(20)->size(), 20u);
  EXPECT_THAT(*folder.store->Checkpoints(), ElementsAre(20));
  EXPECT_EQ(*folder.store->LastReason(kNumerics), "some machine");
  EXPECT_THAT(folder.store->RefreshChanges()->front().periods,
              ElementsAre(7, 7));
}

TEST_F(ReshardTest, AnyGoodCheckpointAndAnySplitWillDo) {
  MakeTrainedFolder(dir_ / "run", {10, 20});
  options_.update = 10;
  options_.split = {1, 3};
  ASSERT_OK_AND_ASSIGN(const Resharded made, Reshard(options_));
  EXPECT_EQ(made.update, 10);
  ASSERT_OK_AND_ASSIGN(const v1::RunConfig config,
                       config::LoadRunConfig(dir_ / "new/config.yaml", {}));
  EXPECT_THAT(config.pipeline().split(), ElementsAre(1, 3));
  options_ = {.run_dir = dir_ / "new", .out = dir_ / "newer", .stages = 3};
  EXPECT_EQ(Reshard(options_)->decision,
            "3 stages from update 11 on, before 2");
  Damage(dir_ / "run", 20);
  options_ = {.run_dir = dir_ / "run", .out = dir_ / "third", .stages = 1};
  EXPECT_EQ(Reshard(options_)->update, 10) << "the newest good one";
}

// A guard decided and the run ended before anybody went back.
TEST_F(ReshardTest, WhatAGuardHasMadeVoidIsNotTaken) {
  MakeTrainedFolder(dir_ / "run", {10, 20});
  {
    ASSERT_OK_AND_ASSIGN(
        const RunFolder folder,
        RunFolder::Take(dir_ / "run", TrainedConfig(4), kTrainedData, true));
    ASSERT_EQ(*folder.store->Next("generation"), 1);
    ASSERT_THAT(folder.store->AddLeftOut({.first = 15,
                                          .last = 18,
                                          .kind = "nan",
                                          .reason = "update 18",
                                          .generation = 1},
                                         /*plans_from=*/15),
                IsOk());
  }
  options_.update = 20;
  EXPECT_THAT(Reshard(options_),
              StatusIs(StatusCode::kNotFound, HasSubstr("[10]")));
  options_.update = 0;
  EXPECT_EQ(Reshard(options_)->update, 10);
  ASSERT_OK_AND_ASSIGN(
      const RunFolder made,
      RunFolder::Take(dir_ / "new", TrainedConfig(2), kTrainedData, true));
  ASSERT_OK_AND_ASSIGN(const auto left_outs, made.store->LeftOuts());
  ASSERT_EQ(left_outs.size(), 1u);
  EXPECT_EQ(left_outs[0].first, 15);
  EXPECT_LT(left_outs[0].generation, *made.store->Count("generation"));
  // In place likewise.
  ASSERT_OK_AND_ASSIGN(
      const RunFolder again,
      RunFolder::Take(dir_ / "run", TrainedConfig(2), kTrainedData, true));
  EXPECT_EQ(again.config.pipeline().origin(), 10);
  EXPECT_THAT(*again.store->Checkpoints(), ElementsAre(10));
}

TEST_F(ReshardTest, SaysWhatIsWrongAndLeavesNothing) {
  EXPECT_THAT(Reshard(options_),
              StatusIs(StatusCode::kNotFound, HasSubstr("not a run folder")));
  MakeTrainedFolder(dir_ / "run", {});
  EXPECT_THAT(Reshard(options_),
              StatusIs(StatusCode::kNotFound, HasSubstr("no committed")));
  std::filesystem::remove_all(dir_ / "run");
  MakeTrainedFolder(dir_ / "run", {10, 20});
  options_.stages = 5;
  EXPECT_THAT(Reshard(options_),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("--stages 5")));
  options_.stages = 2;
  options_.split = {1, 2};
  EXPECT_THAT(Reshard(options_), StatusIs(StatusCode::kInvalidArgument,
                                          HasSubstr("pipeline.split")));
  options_.split = {};
  options_.update = 15;
  EXPECT_THAT(Reshard(options_),
              StatusIs(StatusCode::kNotFound, HasSubstr("[10, 20]")));
  options_.update = 0;
  options_.out = dir_ / "run";
  EXPECT_THAT(Reshard(options_),
              StatusIs(StatusCode::kAlreadyExists, HasSubstr("is there")));
  options_.out = dir_ / "new";
  {
    ASSERT_OK_AND_ASSIGN(
        const RunFolder held,
        RunFolder::Take(dir_ / "run", TrainedConfig(4), kTrainedData, true));
    EXPECT_THAT(Reshard(options_), StatusIs(StatusCode::kAlreadyExists,
                                            HasSubstr("already runs")));
  }
  Damage(dir_ / "run", 20);
  options_.update = 20;
  EXPECT_THAT(Reshard(options_),
              StatusIs(StatusCode::kDataLoss, HasSubstr("layer-000")));
  std::filesystem::resize_file(dir_ / "run/metrics.jsonl", 200);
  options_.update = 10;
  EXPECT_THAT(
      Reshard(options_),
      StatusIs(StatusCode::kDataLoss, HasSubstr(dir_ / "run/metrics.jsonl")));
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    left.push_back(entry.path().filename());
  }
  EXPECT_THAT(left, ElementsAre("run"));
}

}  // namespace
}  // namespace gimbal::coordinator
