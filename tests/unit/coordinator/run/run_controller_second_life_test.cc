// A coordinator that takes up a run.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "coordinator/run/run_controller.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/coordinator/run/cluster_steps.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Request = v1::CommandRequest;

TEST(RunController, ASecondLifeGoesOnFromTheNewestCheckpoint) {
  FakeCluster first(2, 2);
  Start(first, 2);
  Train(first, 23);
  for (int64_t id : {1, 2}) {
    while (first.WriteSnapshot(id)) {
    }
  }
  ASSERT_THAT(first.effects.committed, ElementsAre(10, 20));
  FakeEffects effects = first.effects;
  RunController second(FakeSetup(2, 1), effects);
  ASSERT_THAT(second.Open(), IsOk());
  EXPECT_EQ(effects.rows.size(), 20u);
  const auto status = second.Status(first.now);
  EXPECT_EQ(status.update(), 20);
  EXPECT_EQ(status.loss(), 1.0 / 20);
  EXPECT_EQ(status.last_checkpoint(), 20);
}

TEST(RunController, ASecondLifeMayHaveOtherStages) {
  FakeCluster first(2, 2);
  Start(first, 2);
  Train(first, 23);
  for (int64_t id : {1, 2}) {
    while (first.WriteSnapshot(id)) {
    }
  }
  ASSERT_THAT(first.effects.committed, ElementsAre(10, 20));
  RunSetup setup = FakeSetup(3, 1);
  setup.config.mutable_pipeline()->set_origin(20);
  FakeEffects effects = first.effects;
  RunController second(setup, effects);
  ASSERT_THAT(second.Open(), IsOk());
  const auto status = second.Status(first.now);
  EXPECT_EQ(status.update(), 20);
  ASSERT_EQ(status.stages_size(), 3);
  EXPECT_FALSE(status.stages(0).has_staleness()) << "none of its own yet";
  EXPECT_EQ(status.stages(0).staleness_max(), 0);

  setup.config.mutable_pipeline()->set_origin(19);
  effects = first.effects;
  RunController third(setup, effects);
  EXPECT_THAT(third.Open(),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("20: staleness of 2 stages, expected 3")));
}

// Workers that still hold their stages go on with them.
TEST(RunController, ASecondLifeTakesUpWhatIsHeld) {
  FakeCluster cluster(3, 3);
  Start(cluster, 3);
  TrainToTheFirstCheckpoint(cluster);
  Train(cluster, 2);
  cluster.Step(0);  // reported, but no row was written
  cluster.Revive();
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  EXPECT_EQ(cluster.effects.rows.size(), 10u);
  for (const auto& [id, worker] : std::map(cluster.workers)) {
    cluster.Ready(id);
  }
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_RUNNING);
  EXPECT_EQ(cluster.effects.rows.size(), 14u);
  EXPECT_EQ(cluster.workers.at(4).versions.at(0), 15);
  EXPECT_THAT(cluster.effects.decisions,
              Contains(HasSubstr("every stage goes on")));
  FinishAndExpectAllRows(cluster);
  EXPECT_THAT(cluster.effects.committed, ElementsAre(10, 20, 30, 40));
}

// A worker was lost together with the coordinator.
TEST(RunController, ASecondLifeReplaysWhatNobodyHolds) {
  FakeCluster cluster(3, 3);
  Start(cluster, 3);
  TrainToTheFirstCheckpoint(cluster);
  cluster.workers.at(2) = FakeWorker();  // another process of that name
  cluster.Revive();
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  EXPECT_EQ(cluster.workers.at(4).versions.at(0), 12);
  EXPECT_EQ(cluster.workers.at(5).versions.at(1), 10);
  EXPECT_THAT(cluster.workers.at(6).rewired, ElementsAre(1));
  FinishAndExpectAllRows(cluster);
}

// They keep nothing from before the newest checkpoint, which cannot be read.
TEST(RunController, WhatIsHeldDoesNotReachBackBeyondADamagedCheckpoint) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  Train(cluster, 23);
  for (int64_t id : {1, 2}) {
    while (cluster.WriteSnapshot(id)) {
    }
  }
  ASSERT_THAT(cluster.effects.committed, ElementsAre(10, 20));
  cluster.effects.damaged = {20};
  cluster.Revive();
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  EXPECT_EQ(cluster.workers.at(3).versions.at(0), 10);
  cluster.effects.damaged.clear();
  FinishAndExpectAllRows(cluster);
}

// A worker that had taken over the stages of another one.
TEST(RunController, ASecondLifeTakesUpWhatOneWorkerHoldsForTwo) {
  FakeCluster cluster(ShrinkingSetup(1));
  Start(cluster, 3);
  TrainToTheFirstCheckpoint(cluster);
  cluster.Kill(2);
  Wait(cluster, 11, {1, 3});
  for (int64_t id : {1, 3}) cluster.Ready(id);
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_RUNNING);
  Train(cluster, 2);
  cluster.Revive();
  // The third one is not waited for.
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  EXPECT_GT(cluster.workers.at(4).versions.at(1), 10);
  FinishAndExpectAllRows(cluster);
}

TEST(RunController, WhatIsHeldOfAnOlderGenerationDoesNotCount) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  TrainToTheFirstCheckpoint(cluster);
  ASSERT_TRUE(cluster.effects.Next(Counter::kGeneration).ok());
  cluster.Revive();
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  EXPECT_EQ(cluster.workers.at(3).versions.at(0), 10);
  FinishAndExpectAllRows(cluster);
}

TEST(RunController, ASecondLifeKnowsWhatTheFirstWentThrough) {
  RunSetup setup = FakeSetup(2, 2);
  setup.config.mutable_cluster()->set_restart_budget(1);
  setup.config.mutable_optimizer()->set_name(v1::OPTIMIZER_NAME_BASIS_ROTATION);
  setup.config.mutable_optimizer()->mutable_rotation()->set_period(4);
  FakeCluster first(setup);
  Start(first, 2);
  TrainToTheFirstCheckpoint(first);
  first.now += std::chrono::seconds(1);
  first.Kill(2);
  first.Heartbeat(1);
  first.Ready(first.Join());
  first.Ready(1);
  ASSERT_EQ(first.run->state(), v1::RUN_STATE_RUNNING);

  RunController second(setup, first.effects);
  ASSERT_THAT(second.Open(), IsOk());
  EXPECT_EQ(second.recoveries(), first.run->recoveries());
  EXPECT_EQ(second.recoveries()[0].steps_replayed, 2);
  EXPECT_GT(second.recoveries()[0].recovered_seconds, 0);
  const auto status = second.Status(first.now);
  EXPECT_EQ(status.stages(1).restarts(), 1);
  EXPECT_EQ(status.stages(0).refreshes(), 3);  // updates 1, 4 and 8
  // The budget is one of each coordinator's life: another one may be resumed.
  EXPECT_FALSE(second.exit_code().has_value());
}

}  // namespace
}  // namespace gimbal::coordinator
