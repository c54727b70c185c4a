#include "coordinator/run/run_controller.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/status_matchers.h"
#include "tests/unit/coordinator/run/fake_cluster.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Request = v1::CommandRequest;

TEST(RunController, RunsToTheEnd) {
  FakeCluster cluster(4, 2);
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_PENDING);
  const int64_t a = cluster.Join();
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_PENDING);
  const int64_t b = cluster.Join();
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  EXPECT_EQ(cluster.OwnerOf(1), a);
  EXPECT_EQ(cluster.OwnerOf(2), b);
  cluster.Ready(b);
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_CONNECTING);
  cluster.Ready(a);
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_RUNNING);
  cluster.RunAll();
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_COMPLETED);
  EXPECT_EQ(cluster.run->exit_code(), 0);
  EXPECT_THAT(cluster.effects.committed, ElementsAre(10, 20, 30, 40));
  EXPECT_EQ(cluster.workers.at(a).exit_code, 0);
  ExpectAllRows(cluster);
}

TEST(RunController, EndsOnlyWhenTheLastCheckpointIsCommitted) {
  FakeCluster cluster(1, 1);
  const int64_t worker = cluster.Join();
  cluster.Ready(worker);
  while (cluster.Step(0)) {
  }
  EXPECT_EQ(cluster.effects.rows.size(), 40u);
  EXPECT_FALSE(cluster.run->exit_code().has_value());
  while (cluster.WriteSnapshot(worker)) {
  }
  EXPECT_FALSE(cluster.run->exit_code().has_value());
  cluster.FinishIfDone(worker);
  EXPECT_EQ(cluster.run->exit_code(), 0);
}

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
              Contains(HasSubstr("stages 1 are replayed from update 10")));
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  ExpectAllRows(cluster);
  ASSERT_EQ(cluster.run->recoveries().size(), 1u);
  EXPECT_EQ(cluster.run->recoveries()[0].stage, 1);
  EXPECT_EQ(cluster.run->recoveries()[0].steps_replayed, 4);
  EXPECT_EQ(cluster.run->recoveries()[0].detected_seconds, 1);
  EXPECT_EQ(cluster.run->recoveries()[0].recovered_seconds, 2);
  EXPECT_EQ(cluster.effects.restarts, (std::map<int, int>{{1, 1}}));
}

TEST(RunController, ASilentWorkerIsLostAndItsWordNoLongerCounts) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  cluster.Advance(2);
  cluster.Heartbeat(1);
  cluster.Advance(2);
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_RECOVERING);
  EXPECT_THAT(cluster.effects.disconnected, ElementsAre(2));
  v1::WorkerMessage message;
  message.mutable_heartbeat();
  EXPECT_THAT(cluster.Say(2, message),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("register")));
}

// A machine that slept once took all its workers for dead.
TEST(RunController, AFrozenJobLosesNobody) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  cluster.Advance(1);
  cluster.Freeze(3600);
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_RUNNING);
  cluster.Advance(2);
  cluster.Heartbeat(1);
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_RUNNING);
  // Who stays silent after the end of the freeze is lost.
  cluster.Advance(2);
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_RECOVERING);
  EXPECT_THAT(cluster.effects.disconnected, ElementsAre(2));
}

TEST(RunController, TicksOftenEnoughForAShortLease) {
  v1::RunConfig config = FakeConfig(1);
  EXPECT_EQ(TickPeriod(config), std::chrono::milliseconds(50));
  config.mutable_cluster()->mutable_lease()->set_seconds(0);
  config.mutable_cluster()->mutable_lease()->set_nanos(100000000);
  EXPECT_EQ(TickPeriod(config), std::chrono::milliseconds(12));
}

namespace {

// The worker says that a neighbour needs what it has not kept.
void SayCannotReplay(FakeCluster& cluster, int64_t worker) {
  v1::WorkerMessage message;
  message.mutable_failure()->set_kind(v1::WorkerFailure::KIND_REPLAY);
  message.mutable_failure()->set_reason("only messages after 9 are kept");
  EXPECT_THAT(cluster.Say(worker, message), IsOk());
}

}  // namespace

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
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  ExpectAllRows(cluster);
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

namespace {

// Time passes, and these workers are heard of.
void Wait(FakeCluster& cluster, int seconds, std::vector<int64_t> workers) {
  for (int i = 0; i < seconds; ++i) {
    cluster.Advance(1);
    for (int64_t worker : workers) cluster.Heartbeat(worker);
  }
}

RunSetup ShrinkingSetup(int min_workers) {
  RunSetup setup = FakeSetup(3, 3);
  setup.config.mutable_cluster()->set_min_workers(min_workers);
  setup.config.mutable_cluster()->mutable_shrink_after()->set_seconds(10);
  return setup;
}

}  // namespace

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
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  ExpectAllRows(cluster);
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
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  ExpectAllRows(cluster);
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
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  ExpectAllRows(cluster);
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
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  ExpectAllRows(cluster);
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
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  ExpectAllRows(cluster);
}

TEST(RunController, AFatalFailureFailsTheRun) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  v1::WorkerMessage failure;
  failure.mutable_failure()->set_kind(v1::WorkerFailure::KIND_FATAL);
  failure.mutable_failure()->set_stage(1);
  failure.mutable_failure()->set_reason("out of memory: 7 bytes");
  EXPECT_THAT(cluster.Say(2, failure), IsOk());
  EXPECT_EQ(cluster.run->exit_code(), 3);
  EXPECT_THAT(cluster.run->Status(cluster.now).reason(),
              HasSubstr("out of memory: 7 bytes"));
  EXPECT_EQ(cluster.workers.at(1).exit_code, 3);
  v1::RegisterRequest late;
  late.set_data_address("x:1");
  EXPECT_THAT(cluster.run->Register(late, cluster.now),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("out of memory")));
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

TEST(RunController, NothingNonFiniteIsCommitted) {
  FakeCluster cluster(1, 1);
  Start(cluster, 1);
  Train(cluster, 9);
  v1::WorkerMessage message;
  v1::StageUpdate& report = *message.mutable_reports()->add_updates();
  report.set_update(10);
  report.set_loss(std::numeric_limits<double>::quiet_NaN());
  v1::WorkerMessage snapshot;
  snapshot.mutable_snapshot()->set_update(10);
  EXPECT_THAT(cluster.Say(1, snapshot), IsOk());
  EXPECT_THAT(cluster.effects.committed, ElementsAre());
  EXPECT_THAT(cluster.Say(1, message), IsOk());
  EXPECT_EQ(cluster.run->exit_code(), 3);
  EXPECT_THAT(cluster.run->Status(cluster.now).reason(),
              HasSubstr("loss of update 10"));
  EXPECT_THAT(cluster.effects.committed, ElementsAre());
}

TEST(RunController, ACheckpointThatCannotBeWrittenIsGivenUp) {
  FakeCluster cluster(1, 1);
  Start(cluster, 1);
  Train(cluster, 10);
  cluster.effects.commit_error = absl::DataLossError("disk full");
  cluster.WriteSnapshot(1);
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_RUNNING);
  EXPECT_THAT(cluster.effects.given_up, ElementsAre(10));
  cluster.effects.commit_error = absl::OkStatus();
  cluster.RunAll();
  EXPECT_THAT(cluster.effects.committed, ElementsAre(20, 30, 40));
  EXPECT_EQ(cluster.run->exit_code(), 0);
}

TEST(RunController, WithoutTheLastCheckpointTheRunFails) {
  FakeCluster cluster(1, 1);
  Start(cluster, 1);
  cluster.effects.commit_error = absl::DataLossError("disk full");
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 3);
  EXPECT_THAT(cluster.run->Status(cluster.now).reason(),
              HasSubstr("disk full"));
}

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
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  ExpectAllRows(cluster);
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
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  ExpectAllRows(cluster);
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
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  ExpectAllRows(cluster);
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
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  ExpectAllRows(cluster);
}

TEST(RunController, WhatIsHeldOfAnOlderGenerationDoesNotCount) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  TrainToTheFirstCheckpoint(cluster);
  ASSERT_TRUE(cluster.effects.Next(Counter::kGeneration).ok());
  cluster.Revive();
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  EXPECT_EQ(cluster.workers.at(3).versions.at(0), 10);
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  ExpectAllRows(cluster);
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

TEST(RunController, WhatIsMissingIsAnErrorOfOpen) {
  FakeCluster first(1, 1);
  Start(first, 1);
  TrainToTheFirstCheckpoint(first);
  FakeEffects effects = first.effects;
  effects.rows.resize(3);
  RunController second(FakeSetup(1, 1), effects);
  EXPECT_THAT(second.Open(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a gap")));
  EXPECT_EQ(effects.rows.size(), 3u);
}

TEST(RunController, ReasonsAreTextWhateverFilesHold) {
  FakeCluster cluster(1, 1);
  cluster.run->Fail("metrics.jsonl:3: \xff\xfe");
  EXPECT_EQ(cluster.run->Status(cluster.now).reason(), "metrics.jsonl:3: ??");
}

TEST(RunController, AChangeOfNumericsIsADecision) {
  FakeEffects effects;
  RunSetup setup = FakeSetup(1, 1);
  v1::RegisterRequest request;
  request.set_name("w");
  request.set_data_address("127.0.0.1:1");
  request.set_numerics("avx2");
  const auto decisions_of_a_life = [&](const std::string& before) {
    setup.numerics = before;
    effects.decisions.clear();
    RunController run(setup, effects);
    EXPECT_THAT(run.Open(), IsOk());
    EXPECT_TRUE(run.Register(request, FakeCluster(1, 1).now).ok());
    EXPECT_TRUE(run.Register(request, FakeCluster(1, 1).now).ok());
    return effects.decisions;
  };
  const auto count = [](const std::vector<std::string>& decisions,
                        const std::string& text) {
    return std::count_if(decisions.begin(), decisions.end(),
                         [&](const std::string& d) {
                           return d.find(text) != std::string::npos;
                         });
  };
  const auto first = decisions_of_a_life("");
  EXPECT_EQ(count(first, "numerics: avx2"), 1);
  EXPECT_EQ(count(first, "other numerics"), 0);
  const auto same = decisions_of_a_life("avx2");
  EXPECT_EQ(count(same, "numerics: avx2"), 0);
  EXPECT_EQ(count(same, "other numerics"), 0);
  const auto other = decisions_of_a_life("avx512");
  EXPECT_EQ(count(other, "numerics: avx2"), 1);
  EXPECT_EQ(count(other, "other numerics from update 1 on: 'avx512' before"),
            1);
}

TEST(RunController, ARunThatIsDoneEndsAtOnce) {
  FakeCluster cluster(1, 1);
  Start(cluster, 1);
  cluster.RunAll();
  ASSERT_EQ(cluster.run->exit_code(), 0);
  RunController again(FakeSetup(1, 1), cluster.effects);
  ASSERT_THAT(again.Open(), IsOk());
  EXPECT_EQ(again.exit_code(), 0);
  EXPECT_EQ(again.state(), v1::RUN_STATE_COMPLETED);
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

TEST(RunController, StatusShowsStagesAndWorkers) {
  FakeCluster cluster(2, 1);
  const auto before = cluster.run->Status(cluster.now);
  EXPECT_FALSE(before.has_loss());
  EXPECT_FALSE(before.has_eta_seconds());
  EXPECT_FALSE(before.has_last_checkpoint());
  Start(cluster, 1);
  for (int i = 0; i < 6; ++i) {
    cluster.now += std::chrono::milliseconds(500);
    Train(cluster, 1);
  }
  const auto status = cluster.run->Status(cluster.now);
  EXPECT_EQ(status.state(), v1::RUN_STATE_RUNNING);
  EXPECT_EQ(status.update(), 6);
  EXPECT_EQ(status.steps(), 40);
  EXPECT_EQ(status.wall_seconds(), 3);
  EXPECT_EQ(status.tokens_per_second(), 32);
  EXPECT_EQ(status.valid_update(), 5);
  EXPECT_NEAR(status.eta_seconds(), 17, 3);
  EXPECT_EQ(status.schedule(), "async-1f1b");
  EXPECT_EQ(status.optimizer(), "adamw");
  ASSERT_EQ(status.stages_size(), 2);
  EXPECT_EQ(status.stages(0).layers(), "embedding, block 0");
  EXPECT_EQ(status.stages(1).layers(), "block 1, head");
  EXPECT_EQ(status.stages(0).delay_expected(), 1);
  EXPECT_EQ(status.stages(0).staleness(), 1);
  EXPECT_EQ(status.stages(0).weight_version(), 6);
  ASSERT_EQ(status.workers_size(), 1);
  EXPECT_EQ(status.workers(0).state(), "training");
  EXPECT_THAT(status.workers(0).stages(), ElementsAre(0, 1));
}

}  // namespace
}  // namespace gimbal::coordinator
