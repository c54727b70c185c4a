// Cuts in the workers' memories, and how losses are cured from them.
#include <gtest/gtest.h>

#include <limits>

#include "coordinator/run/run_controller.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/coordinator/run/cluster_steps.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Kept = std::map<std::pair<int, int64_t>, int64_t>;

std::vector<int64_t> UpdatesKept(const FakeWorker& worker) {
  std::set<int64_t> updates;
  for (const auto& [key, generation] : worker.kept) updates.insert(key.second);
  return {updates.begin(), updates.end()};
}

// Others come for those that were lost, and all are heard of.
std::vector<int64_t> Replace(FakeCluster& cluster,
                             const std::vector<int64_t>& lost) {
  cluster.now += std::chrono::milliseconds(1);
  for (int64_t worker : lost) cluster.Kill(worker);
  std::vector<int64_t> joined;
  for (size_t i = 0; i < lost.size(); ++i) joined.push_back(cluster.Join());
  for (const auto& [id, worker] : std::map(cluster.workers)) {
    cluster.Heartbeat(id);
  }
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  return joined;
}

int64_t VersionOf(const FakeCluster& cluster, int stage) {
  return cluster.workers.at(cluster.OwnerOf(stage)).versions.at(stage);
}

TEST(RunControllerMemory, ACutCountsWhenEveryStageHasTwoCopies) {
  FakeCluster cluster(KeepingSetup());
  Start(cluster, 4);
  Train(cluster, 9);
  for (int64_t id : {1, 2, 3}) {
    while (cluster.SendCopy(id)) {
    }
  }
  EXPECT_EQ(cluster.workers.at(1).logs_from, 0);
  EXPECT_THAT(UpdatesKept(cluster.workers.at(1)), ElementsAre(4, 8));
  cluster.SendCopy(4);
  EXPECT_EQ(cluster.workers.at(1).logs_from, 4);
  cluster.SendCopy(4);
  EXPECT_EQ(cluster.workers.at(1).logs_from, 8);
  // Its own stage and that of the worker half a pipeline away.
  EXPECT_EQ(cluster.workers.at(1).kept, (Kept{{{0, 8}, 1}, {{2, 8}, 1}}));
  EXPECT_TRUE(cluster.effects.committed.empty());
}

TEST(RunControllerMemory, RowsComeFirst) {
  FakeCluster cluster(KeepingSetup());
  Start(cluster, 4);
  for (int stage : {0, 1, 2}) {
    for (int i = 0; i < 4; ++i) cluster.Step(stage);
  }
  for (int i = 0; i < 3; ++i) cluster.Step(3);
  v1::WorkerMessage message;
  message.mutable_kept()->set_stage(3);
  message.mutable_kept()->set_update(4);
  message.mutable_kept()->set_backup(2);
  EXPECT_THAT(cluster.Say(4, message), IsOk());
  cluster.SendCopies();
  EXPECT_EQ(cluster.workers.at(1).logs_from, 0);
  cluster.Step(3);
  EXPECT_EQ(cluster.workers.at(1).logs_from, 4);
}

TEST(RunControllerMemory, OneWorkerAloneNeedsNoBackup) {
  RunSetup setup = KeepingSetup();
  setup.workers = 1;
  FakeCluster cluster(setup);
  Start(cluster, 1);
  TrainAndKeep(cluster, 9);
  EXPECT_EQ(cluster.workers.at(1).logs_from, 8);
}

TEST(RunControllerMemory, ALostStageIsReplayedFromMemory) {
  FakeCluster cluster(KeepingSetup());
  Start(cluster, 4);
  TrainAndKeep(cluster, 10);
  const int64_t replacement = Replace(cluster, {2})[0];
  EXPECT_EQ(cluster.workers.at(replacement).versions,
            (std::map<int, int64_t>{{1, 8}}));
  EXPECT_EQ(VersionOf(cluster, 0), 10);
  EXPECT_THAT(cluster.effects.decisions,
              Contains(HasSubstr(
                  "stage 1 is replayed from update 8, kept in memory")));
  EXPECT_EQ(cluster.effects.rows.size(), 10u);
  EXPECT_EQ(cluster.run->recoveries()[0].steps_replayed, 2);
  FinishAndExpectAllRows(cluster);
}

TEST(RunControllerMemory, TwoNeighboursCanBeLostTogether) {
  for (const auto& lost :
       std::vector<std::vector<int64_t>>{{1, 2}, {2, 3}, {3, 4}, {4, 1}}) {
    FakeCluster cluster(KeepingSetup());
    Start(cluster, 4);
    TrainAndKeep(cluster, 10);
    Replace(cluster, lost);
    EXPECT_EQ(VersionOf(cluster, static_cast<int>(lost[0]) - 1), 8);
    EXPECT_EQ(VersionOf(cluster, static_cast<int>(lost[1]) - 1), 8);
    EXPECT_EQ(cluster.effects.rows.size(), 10u);
    FinishAndExpectAllRows(cluster);
  }
}

// Who takes over a stage has its snapshot from then on, and who has lost its
// backup gives it to another one.
TEST(RunControllerMemory, LossesOneAfterTheOther) {
  FakeCluster cluster(KeepingSetup());
  Start(cluster, 4);
  TrainAndKeep(cluster, 10);
  for (int64_t worker : {1, 3, 2, 4}) {
    Replace(cluster, {worker});
    for (const auto& [id, other] : std::map(cluster.workers)) cluster.Ready(id);
    cluster.SendCopies();
  }
  EXPECT_EQ(cluster.effects.rows.size(), 10u);
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(VersionOf(cluster, stage), 8);
  }
  FinishAndExpectAllRows(cluster);
}

TEST(RunControllerMemory, EveryStageGoesBackFromMemory) {
  FakeCluster cluster(KeepingSetup());
  Start(cluster, 4);
  TrainAndKeep(cluster, 10);
  cluster.now += std::chrono::milliseconds(1);
  v1::WorkerMessage message;
  message.mutable_failure()->set_kind(v1::WorkerFailure::KIND_REPLAY);
  message.mutable_failure()->set_reason("only messages after 9 are kept");
  EXPECT_THAT(cluster.Say(1, message), IsOk());
  for (int64_t id : {1, 2, 3, 4}) cluster.Heartbeat(id);
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(VersionOf(cluster, stage), 8);
  }
  EXPECT_EQ(cluster.effects.rows.size(), 8u);
  EXPECT_THAT(
      cluster.effects.decisions,
      Contains(HasSubstr("every stage goes back to update 8, kept in memory")));
  FinishAndExpectAllRows(cluster);
}

TEST(RunControllerMemory, OwnerAndBackupLostIsACaseForTheDisk) {
  FakeCluster cluster(KeepingSetup());
  Start(cluster, 4);
  TrainAndKeep(cluster, 10);
  Replace(cluster, {1, 3});
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(VersionOf(cluster, stage), 0);
  }
  EXPECT_THAT(cluster.effects.decisions,
              Contains(AllOf(HasSubstr("every stage goes back to update 0"),
                             HasSubstr("snapshots of stages 0, 2"))));
  // What is left of the old cut is not used by mistake.
  TrainAndKeep(cluster, 3);
  EXPECT_EQ(cluster.effects.rows.size(), 0u);
  FinishAndExpectAllRows(cluster);
}

TEST(RunControllerMemory, TheNewerOfDiskAndMemoryCounts) {
  RunSetup setup = KeepingSetup();
  setup.config.mutable_checkpoint()->set_every(10);
  FakeCluster cluster(setup);
  Start(cluster, 4);
  TrainAndKeep(cluster, 11);
  for (int64_t id : {1, 2, 3, 4}) cluster.WriteSnapshot(id);
  ASSERT_THAT(cluster.effects.committed, ElementsAre(10));
  Replace(cluster, {2});
  EXPECT_EQ(VersionOf(cluster, 1), 10);
  cluster.RunAll();
  ExpectAllRows(cluster);
}

TEST(RunControllerMemory, ADamagedCheckpointIsMadeGoodFromMemory) {
  RunSetup setup = KeepingSetup();
  setup.config.mutable_checkpoint()->set_every(10);
  for (const bool gone : {false, true}) {
    FakeCluster cluster(setup);
    Start(cluster, 4);
    TrainAndKeep(cluster, 11);
    for (int64_t id : {1, 2, 3, 4}) cluster.WriteSnapshot(id);
    ASSERT_THAT(cluster.effects.committed, ElementsAre(10));
    cluster.effects.damaged = {10};
    if (gone) cluster.effects.disk_error = absl::DataLossError("no checkpoint");
    Replace(cluster, {2});
    for (int stage = 0; stage < 4; ++stage) {
      EXPECT_EQ(VersionOf(cluster, stage), 8);
    }
    cluster.effects.damaged.clear();
    FinishAndExpectAllRows(cluster);
    EXPECT_THAT(cluster.effects.committed, ElementsAre(10, 20, 30, 40));
  }
}

TEST(RunControllerMemory, TheDiskIsNotAskedWhenMemoryIsNewer) {
  RunSetup setup = KeepingSetup();
  setup.config.mutable_checkpoint()->set_every(10);
  FakeCluster cluster(setup);
  Start(cluster, 4);
  TrainAndKeep(cluster, 13);
  for (int64_t id : {1, 2, 3, 4}) cluster.WriteSnapshot(id);
  cluster.effects.disk_error = absl::DataLossError("no checkpoint");
  Replace(cluster, {2});
  EXPECT_EQ(VersionOf(cluster, 1), 12);
  EXPECT_EQ(VersionOf(cluster, 2), 13);
  FinishAndExpectAllRows(cluster);
}

// Its last part was not written when its worker was lost.
TEST(RunControllerMemory, ACheckpointBeforeTheCutIsGivenUp) {
  RunSetup setup = KeepingSetup();
  setup.config.mutable_checkpoint()->set_every(10);
  FakeCluster cluster(setup);
  Start(cluster, 4);
  TrainAndKeep(cluster, 13);
  for (int64_t id : {1, 3}) cluster.WriteSnapshot(id);
  Replace(cluster, {2});
  EXPECT_EQ(VersionOf(cluster, 1), 12);
  EXPECT_THAT(cluster.effects.given_up, ElementsAre(10));
  FinishAndExpectAllRows(cluster);
  EXPECT_THAT(cluster.effects.committed, ElementsAre(20, 30, 40));
}

TEST(RunControllerMemory, ACutThatFailsIsForgotten) {
  FakeCluster cluster(KeepingSetup());
  Start(cluster, 4);
  TrainAndKeep(cluster, 5);
  Train(cluster, 3);
  cluster.workers.at(3).since = 100;  // it takes nothing any more
  cluster.SendCopies();
  EXPECT_EQ(cluster.workers.at(1).logs_from, 4);
  for (int64_t id : {1, 2, 3, 4}) {
    EXPECT_THAT(UpdatesKept(cluster.workers.at(id)), Not(Contains(8)));
  }
  cluster.workers.at(3).since = 0;
  TrainAndKeep(cluster, 4);
  EXPECT_EQ(cluster.workers.at(1).logs_from, 12);
}

// The worker that was to give it does not have it.
TEST(RunControllerMemory, ASnapshotThatCannotBeHadIsACaseForTheDisk) {
  FakeCluster cluster(KeepingSetup());
  Start(cluster, 4);
  TrainAndKeep(cluster, 10);
  const int64_t replacement = Replace(cluster, {2})[0];
  cluster.now += std::chrono::milliseconds(1);
  v1::WorkerMessage message;
  message.mutable_failure()->set_kind(v1::WorkerFailure::KIND_SNAPSHOT);
  message.mutable_failure()->set_stage(1);
  message.mutable_failure()->set_reason("NOT_FOUND");
  EXPECT_THAT(cluster.Say(replacement, message), IsOk());
  for (int64_t id : {int64_t{1}, int64_t{3}, int64_t{4}, replacement}) {
    cluster.Heartbeat(id);
  }
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(VersionOf(cluster, stage), 0);
  }
  FinishAndExpectAllRows(cluster);
}

// What was computed with a minibatch that is left out does not count.
TEST(RunControllerMemory, AGuardGoesBackToTheCutBeforeIt) {
  RunSetup setup = KeepingSetup();
  setup.config.mutable_guards()->set_nan(v1::GUARD_POLICY_SKIP);
  FakeCluster cluster(setup);
  cluster.bad_gradients[{1, 11}] = std::numeric_limits<double>::quiet_NaN();
  Start(cluster, 4);
  TrainAndKeep(cluster, 10);
  for (int stage : {3, 2, 0}) {
    for (int i = 0; i < 3; ++i) cluster.Step(stage);
  }
  cluster.SendCopies();
  cluster.Step(1);
  cluster.now += std::chrono::milliseconds(1);
  for (int64_t id : {1, 2, 3, 4}) cluster.Heartbeat(id);
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(VersionOf(cluster, stage), 8);
  }
  for (const auto& [id, worker] : cluster.workers) {
    EXPECT_THAT(UpdatesKept(worker), ElementsAre(8));
  }
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  ASSERT_EQ(cluster.effects.rows.size(), 40u);
  EXPECT_EQ(cluster.effects.rows[10].left_out, "nan");
}

TEST(RunControllerMemory, ARollbackMayReachBackBeyondTheCut) {
  RunSetup setup = KeepingSetup();
  setup.config.mutable_guards()->set_nan(v1::GUARD_POLICY_ROLLBACK);
  setup.config.mutable_guards()->set_rollback_updates(4);
  FakeCluster cluster(setup);
  cluster.bad_gradients[{1, 11}] = std::numeric_limits<double>::quiet_NaN();
  Start(cluster, 4);
  TrainAndKeep(cluster, 10);
  Train(cluster, 1);
  cluster.now += std::chrono::milliseconds(1);
  for (int64_t id : {1, 2, 3, 4}) cluster.Heartbeat(id);
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(VersionOf(cluster, stage), 0);
  }
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  ASSERT_EQ(cluster.effects.rows.size(), 40u);
  EXPECT_EQ(cluster.effects.rows[7].left_out, "nan");
}

TEST(RunControllerMemory, ASecondLifeUsesWhatIsKept) {
  FakeCluster cluster(KeepingSetup());
  Start(cluster, 4);
  TrainAndKeep(cluster, 10);
  cluster.Revive();
  for (const auto& [id, worker] : std::map(cluster.workers)) {
    cluster.Ready(id);
  }
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_RUNNING);
  EXPECT_EQ(cluster.effects.rows.size(), 10u);
  Replace(cluster, {cluster.OwnerOf(1)});
  EXPECT_EQ(VersionOf(cluster, 1), 8);
  EXPECT_EQ(VersionOf(cluster, 2), 10);
  FinishAndExpectAllRows(cluster);
}

// A worker was lost together with the coordinator.
TEST(RunControllerMemory, ASecondLifeReplaysFromMemoryWhatNobodyHolds) {
  FakeCluster cluster(KeepingSetup());
  Start(cluster, 4);
  TrainAndKeep(cluster, 10);
  cluster.workers.at(2) = FakeWorker();  // another process of that name
  cluster.Revive();
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  EXPECT_EQ(VersionOf(cluster, 0), 10);
  EXPECT_EQ(VersionOf(cluster, 1), 8);
  EXPECT_EQ(cluster.effects.rows.size(), 8u);
  // And another one before the next cut is kept.
  for (const auto& [id, worker] : std::map(cluster.workers)) {
    cluster.Ready(id);
  }
  cluster.SendCopies();
  Replace(cluster, {cluster.OwnerOf(3)});
  EXPECT_EQ(VersionOf(cluster, 3), 8);
  FinishAndExpectAllRows(cluster);
}

TEST(RunControllerMemory, ASecondLifeGoesToTheDiskForWhatNobodyKeeps) {
  FakeCluster cluster(KeepingSetup());
  Start(cluster, 4);
  TrainAndKeep(cluster, 10);
  cluster.workers.at(2) = FakeWorker();
  cluster.workers.at(4) = FakeWorker();
  cluster.Revive();
  cluster.RunAll();  // up to the neighbours' word that they cannot replay
  FinishAndExpectAllRows(cluster);
  EXPECT_THAT(cluster.effects.decisions,
              Contains(HasSubstr("every stage goes back to update 0")));
}

}  // namespace
}  // namespace gimbal::coordinator
