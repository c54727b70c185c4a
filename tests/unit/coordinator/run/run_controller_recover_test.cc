// Losses, and how the run goes on.
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

TEST(RunController, ALostWorkerIsReplayedAloneFromTheNewestCheckpoint) {
  FakeCluster cluster(3, 3);
  Start(cluster, 3);
  const int64_t survivor = cluster.OwnerOf(0);
  const int64_t lost = cluster.OwnerOf(1);
  Train(cluster, 14);
  for (int64_t id : {1, 2, 3}) cluster.WriteSnapshot(id);
  EXPECT_THAT(cluster.effects.committed, ElementsAre(10));
  cluster.now += std::chrono::seconds(1);
  cluster.Kill(lost);
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_RECOVERING);
  EXPECT_THAT(cluster.effects.disconnected, Contains(lost));
  cluster.now += std::chrono::seconds(1);
  cluster.Heartbeat(survivor);
  const int64_t replacement = cluster.Join();
  // The third worker was not heard of since the loss: it may be gone, too.
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_RECOVERING);
  cluster.Heartbeat(3);
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  EXPECT_EQ(cluster.OwnerOf(0), survivor);
  EXPECT_EQ(cluster.OwnerOf(1), replacement);
  // The others stay where they are.
  EXPECT_EQ(cluster.effects.rows.size(), 14u);
  EXPECT_EQ(cluster.workers.at(survivor).versions.at(0), 14);
  EXPECT_EQ(cluster.workers.at(replacement).versions.at(1), 10);
  EXPECT_THAT(cluster.workers.at(survivor).rewired, ElementsAre(0));
  EXPECT_THAT(cluster.workers.at(3).rewired, ElementsAre(1));
  EXPECT_THAT(cluster.effects.decisions,
              Contains(HasSubstr("stage 1 is replayed from update 10")));
  FinishAndExpectAllRows(cluster);
  ASSERT_EQ(cluster.run->recoveries().size(), 1u);
  EXPECT_EQ(cluster.run->recoveries()[0].stage, 1);
  EXPECT_EQ(cluster.run->recoveries()[0].steps_replayed, 4);
  EXPECT_EQ(cluster.run->recoveries()[0].detected_seconds, 1);
  EXPECT_EQ(cluster.run->recoveries()[0].recovered_seconds, 2);
  EXPECT_EQ(cluster.effects.restarts, (std::map<int, int>{{1, 1}}));
}

// The worker says that a neighbour needs what it has not kept.
void SayCannotReplay(FakeCluster& cluster, int64_t worker) {
  v1::WorkerMessage message;
  message.mutable_failure()->set_kind(v1::WorkerFailure::KIND_REPLAY);
  message.mutable_failure()->set_reason("only messages after 9 are kept");
  EXPECT_THAT(cluster.Say(worker, message), IsOk());
}

// One that woke up knows by it that its stages are still its own.
TEST(RunController, ProbesOfCurrentWorkersAreAnswered) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  v1::WorkerMessage message;
  message.mutable_heartbeat()->set_probe(7);
  EXPECT_THAT(cluster.Say(1, message), IsOk());
  EXPECT_EQ(cluster.workers.at(1).answered, 7);
  Wait(cluster, 5, {1});
  EXPECT_THAT(cluster.Say(2, message), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(cluster.workers.at(2).answered, 0);
}

TEST(RunController, EveryStageGoesBackWhenMessagesWereNotKept) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  TrainToTheFirstCheckpoint(cluster);
  cluster.Kill(2);
  cluster.Heartbeat(1);
  const int64_t replacement = cluster.Join();
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  EXPECT_EQ(cluster.workers.at(1).versions.at(0), 12);
  cluster.now += std::chrono::milliseconds(1);
  SayCannotReplay(cluster, 1);
  cluster.Heartbeat(replacement);
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  EXPECT_EQ(cluster.workers.at(1).versions.at(0), 10);
  EXPECT_EQ(cluster.effects.rows.size(), 10u);
  EXPECT_THAT(cluster.effects.decisions,
              Contains(HasSubstr("every stage goes back to update 10")));
  FinishAndExpectAllRows(cluster);
}

// The worker that came in place of the lost one.
int64_t LoseAStageAndTheCheckpoint(FakeCluster& cluster) {
  Start(cluster, 2);
  TrainToTheFirstCheckpoint(cluster);
  cluster.Kill(2);
  cluster.effects.disk_error = absl::DataLossError("no checkpoints");
  cluster.Heartbeat(1);
  return cluster.Join();
}

// The run once failed, though every other stage was whole.
TEST(RunController, ACheckpointThatIsAwayForAMomentIsWaitedFor) {
  FakeCluster cluster(2, 2);
  const int64_t replacement = LoseAStageAndTheCheckpoint(cluster);
  Wait(cluster, 50, {1, replacement});
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_RECOVERING);
  EXPECT_THAT(cluster.run->Status(cluster.now).reason(),
              HasSubstr("waits for the checkpoint of update 10"));
  cluster.effects.disk_error = absl::OkStatus();
  cluster.Heartbeat(1);
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  EXPECT_EQ(cluster.workers.at(1).versions.at(0), 12) << "it was kept";
  FinishAndExpectAllRows(cluster);
}

TEST(RunController, ACheckpointThatStaysAwayFailsTheRun) {
  FakeCluster cluster(2, 2);
  const int64_t replacement = LoseAStageAndTheCheckpoint(cluster);
  Wait(cluster, 70, {1, replacement});
  EXPECT_EQ(cluster.run->exit_code(), 3);
  EXPECT_THAT(cluster.run->Status(cluster.now).reason(),
              HasSubstr("no checkpoints"));
}

TEST(RunController, NothingIsCommittedWhileAStageIsReplayed) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  TrainToTheFirstCheckpoint(cluster);
  Train(cluster, 9);
  cluster.WriteSnapshot(2);
  cluster.Kill(2);
  cluster.Heartbeat(1);
  const int64_t replacement = cluster.Join();
  for (int64_t id : {int64_t{1}, replacement}) cluster.Ready(id);
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_RUNNING);
  cluster.WriteSnapshot(1);
  EXPECT_THAT(cluster.effects.committed, ElementsAre(10));
  for (int i = 0; i < 11; ++i) cluster.Step(1);
  EXPECT_THAT(cluster.effects.committed, ElementsAre(10, 20));
  EXPECT_EQ(cluster.workers.at(1).committed, 20);
}

TEST(RunController, StagesOfAWorkerThatStaysAwayMoveToANeighbour) {
  FakeCluster cluster(ShrinkingSetup(2));
  Start(cluster, 3);
  TrainToTheFirstCheckpoint(cluster);
  cluster.Kill(2);
  Wait(cluster, 9, {1, 3});
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_RECOVERING);
  Wait(cluster, 2, {1, 3});
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  // The neighbour begins anew with both, the other one stays.
  EXPECT_EQ(cluster.workers.at(1).versions,
            (std::map<int, int64_t>{{0, 10}, {1, 10}}));
  EXPECT_EQ(cluster.workers.at(3).versions, (std::map<int, int64_t>{{2, 12}}));
  EXPECT_THAT(cluster.workers.at(3).rewired, ElementsAre(1));
  FinishAndExpectAllRows(cluster);
}

TEST(RunController, StagesSpreadOutAgainAtACheckpoint) {
  FakeCluster cluster(ShrinkingSetup(1));
  Start(cluster, 3);
  TrainToTheFirstCheckpoint(cluster);
  cluster.Kill(2);
  Wait(cluster, 11, {1, 3});
  for (int64_t id : {1, 3}) cluster.Ready(id);
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_RUNNING);
  const int64_t late = cluster.Join();
  for (int i = 0; i < 15; ++i) Train(cluster, 1);
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_RUNNING);
  EXPECT_TRUE(cluster.workers.at(late).versions.empty());
  for (int64_t id : {1, 3, 1}) cluster.WriteSnapshot(id);
  ASSERT_THAT(cluster.effects.committed, Contains(20));
  cluster.Heartbeat(1);
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  EXPECT_EQ(cluster.workers.at(1).versions, (std::map<int, int64_t>{{0, 20}}));
  EXPECT_EQ(cluster.workers.at(late).versions,
            (std::map<int, int64_t>{{1, 20}}));
  FinishAndExpectAllRows(cluster);
  // Growing is no loss.
  EXPECT_EQ(cluster.run->recoveries().size(), 1u);
  EXPECT_EQ(cluster.effects.restarts, (std::map<int, int>{{1, 1}}));
}

// Not one generation for each that comes back.
TEST(RunController, ManyThatComeBackOneByOneMakeOneGeneration) {
  FakeCluster cluster(8, 8);
  Start(cluster, 8);
  TrainToTheFirstCheckpoint(cluster);
  for (int64_t id = 1; id <= 8; ++id) cluster.Kill(id);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(cluster.effects.counters[Counter::kGeneration], 1);
    const int64_t id = cluster.Join();
    cluster.Advance(0.3);
    for (int64_t other = 9; other <= id; ++other) cluster.Heartbeat(other);
  }
  EXPECT_EQ(cluster.effects.counters[Counter::kGeneration], 2);
  FinishAndExpectAllRows(cluster);
}

TEST(RunController, WaitsForCapacityWhenSoFewAreNotAllowed) {
  FakeCluster cluster(ShrinkingSetup(0));
  Start(cluster, 3);
  TrainToTheFirstCheckpoint(cluster);
  cluster.Kill(2);
  Wait(cluster, 11, {1, 3});
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_WAITING_FOR_CAPACITY);
  EXPECT_THAT(cluster.run->Status(cluster.now).reason(),
              HasSubstr("2 of 3 workers are there"));
  cluster.Join();
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  FinishAndExpectAllRows(cluster);
}

TEST(RunController, AReplayWithOtherNumbersFailsTheRun) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  cluster.Step(1);
  cluster.Kill(2);
  cluster.Heartbeat(1);
  const int64_t replacement = cluster.Join();
  for (int64_t id : {int64_t{1}, replacement}) cluster.Ready(id);
  v1::WorkerMessage message;
  v1::StageUpdate& report = *message.mutable_reports()->add_updates();
  report.set_stage(1);
  report.set_update(1);
  report.set_loss(17);
  EXPECT_THAT(cluster.Say(replacement, message), IsOk());
  EXPECT_EQ(cluster.run->exit_code(), 3);
  EXPECT_THAT(cluster.run->Status(cluster.now).reason(),
              HasSubstr("gave other numbers for update 1"));
}

TEST(RunController, MessagesOfAnOldAssignmentAreIgnored) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  Train(cluster, 3);
  cluster.now += std::chrono::milliseconds(1);
  SayCannotReplay(cluster, 1);
  for (int64_t id : {1, 2}) cluster.Heartbeat(id);
  ASSERT_EQ(cluster.effects.counters[Counter::kGeneration], 2);
  v1::WorkerMessage late;
  late.set_worker_id(1);
  late.set_incarnation(1);
  late.set_generation(1);
  v1::StageUpdate& report = *late.mutable_reports()->add_updates();
  report.set_stage(0);
  report.set_update(4);
  report.set_staleness(7);
  EXPECT_THAT(cluster.run->Receive(late, cluster.now), IsOk());
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
}

TEST(RunController, ABrokenLinkRecoversAndCountsAgainstItsStage) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  v1::WorkerMessage failure;
  failure.mutable_failure()->set_kind(v1::WorkerFailure::KIND_LINK);
  failure.mutable_failure()->set_stage(1);
  failure.mutable_failure()->set_reason("edge 0: time-out");
  cluster.now += std::chrono::milliseconds(1);
  EXPECT_THAT(cluster.Say(2, failure), IsOk());
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_RECOVERING);
  cluster.Heartbeat(1);
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  EXPECT_EQ(cluster.effects.restarts, (std::map<int, int>{{1, 1}}));
  FinishAndExpectAllRows(cluster);
}

TEST(RunController, TheRestartBudgetIsPerStage) {
  RunSetup setup = FakeSetup(2, 2);
  setup.config.mutable_cluster()->set_restart_budget(2);
  FakeCluster cluster(setup);
  Start(cluster, 2);
  for (int stage : {0, 1, 0, 1}) {
    const int64_t other = cluster.OwnerOf(1 - stage);
    cluster.Kill(cluster.OwnerOf(stage));
    cluster.Heartbeat(other);
    cluster.Join();
    ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  }
  cluster.Kill(cluster.OwnerOf(1));
  EXPECT_EQ(cluster.run->exit_code(), 3);
  EXPECT_THAT(cluster.run->Status(cluster.now).reason(),
              HasSubstr("RESTART_BUDGET_EXCEEDED: stage 1"));
}

// Found by the random test: nothing is left to replay, so nobody would report.
TEST(RunController, ALossAfterTheLastCheckpointEndsTheRun) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  while (cluster.Step(0) || cluster.Step(1)) {
  }
  for (int64_t id : {1, 2}) {
    while (cluster.WriteSnapshot(id)) {
    }
  }
  ASSERT_FALSE(cluster.run->exit_code().has_value());
  cluster.Kill(1);
  EXPECT_EQ(cluster.run->exit_code(), 0);
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_COMPLETED);
}

// The same, but the last part of the checkpoint comes after the loss.
TEST(RunController, TheLastCheckpointMayBecomeWholeWhileRecovering) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  while (cluster.Step(0) || cluster.Step(1)) {
  }
  while (cluster.WriteSnapshot(1)) {
  }
  cluster.Kill(1);
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_RECOVERING);
  while (cluster.WriteSnapshot(2)) {
  }
  cluster.Join();
  cluster.Heartbeat(2);
  EXPECT_EQ(cluster.run->exit_code(), 0);
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_COMPLETED);
}

TEST(RunController, AnExtraWorkerIsASpareAndStepsIn) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  const int64_t spare = cluster.Join();
  Train(cluster, 3);
  cluster.Kill(2);
  cluster.Heartbeat(spare);
  cluster.Heartbeat(1);
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  EXPECT_EQ(cluster.OwnerOf(1), spare);
}

}  // namespace
}  // namespace gimbal::coordinator
