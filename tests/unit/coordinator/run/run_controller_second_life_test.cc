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

v1::RegisterRequest AWorker() {
  v1::RegisterRequest request;
  request.set_name("w");
  request.set_data_address("127.0.0.1:1");
  return request;
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
  auto status = second.Status(first.now);
  EXPECT_EQ(status.last_checkpoint(), 20);
  EXPECT_EQ(status.update(), 23) << "workers may still hold it";
  ASSERT_OK_AND_ASSIGN(const v1::RegisterResponse admitted,
                       second.Register(AWorker(), first.now));
  v1::WorkerMessage heartbeat;
  heartbeat.set_worker_id(admitted.worker_id());
  heartbeat.set_incarnation(admitted.incarnation());
  heartbeat.mutable_heartbeat();
  ASSERT_THAT(second.Receive(heartbeat, first.now), IsOk());
  ASSERT_EQ(second.state(), v1::RUN_STATE_ASSIGNING);
  status = second.Status(first.now);
  EXPECT_EQ(status.update(), 20);
  EXPECT_EQ(status.loss(), 1.0 / 20);
}

// A run that was paused over night once looked slow, and nobody could tell.
TEST(RunController, PausesAndRecoveriesAreNoTrainingInAnyLife) {
  FakeCluster first(2, 2);
  const auto times = [](const RunController& run, base::SteadyTime now) {
    const v1::GetStatusResponse status = run.Status(now);
    return std::pair(status.wall_seconds(), status.training_seconds());
  };
  Start(first, 2);
  Train(first, 12);
  Wait(first, 4, {1, 2});
  EXPECT_EQ(times(*first.run, first.now), std::pair(4.0, 4.0));
  ASSERT_THAT(first.Command(Request::VERB_PAUSE), IsOk());
  Train(first, 40);
  ASSERT_EQ(first.run->state(), v1::RUN_STATE_PAUSED);
  first.Advance(0);
  Wait(first, 7, {1, 2});
  EXPECT_EQ(times(*first.run, first.now), std::pair(11.0, 4.0));
  ASSERT_THAT(first.Command(Request::VERB_RESUME), IsOk());
  first.Advance(0);
  Wait(first, 2, {1, 2});
  EXPECT_EQ(times(*first.run, first.now), std::pair(13.0, 6.0));
  first.Kill(2);
  first.Advance(0);
  Wait(first, 5, {1});
  first.Heartbeat(first.Join());
  for (const int64_t id : {1, 3}) first.Ready(id);
  ASSERT_EQ(first.run->state(), v1::RUN_STATE_RUNNING);
  first.Advance(0);
  EXPECT_EQ(times(*first.run, first.now), std::pair(18.0, 6.0));

  FakeEffects effects = first.effects;
  RunController second(FakeSetup(2, 1), effects);
  ASSERT_THAT(second.Open(), IsOk());
  EXPECT_EQ(times(second, first.now), std::pair(18.0, 6.0));
}

// What was trained since the newest checkpoint was once lost with its rows.
TEST(RunController, TheTimeUpToTheLastRowOutlivesTheCoordinator) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  Train(cluster, 4);
  Wait(cluster, 5, {1, 2});
  Train(cluster, 1);
  ASSERT_THAT(cluster.effects.FlushRows(), IsOk());
  ASSERT_THAT(cluster.effects.committed, ElementsAre());
  const double trained = cluster.effects.rows.back().seconds;
  ASSERT_GE(trained, 5);
  cluster.Revive();
  const auto status = cluster.run->Status(cluster.now);
  EXPECT_EQ(status.training_seconds(), trained);
  EXPECT_EQ(status.wall_seconds(), trained);
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
  EXPECT_EQ(status.update(), 20) << "rows beyond are of other stages";
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
              Contains(HasSubstr("every stage goes on: ")))
      << "no edge is broken";
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

// Progress once ran backwards, to the checkpoint and slowly on from there.
TEST(RunController, WhatAllStagesHaveDoneIsShownWhileOneDoesItAgain) {
  FakeCluster cluster(3, 3);
  Start(cluster, 3);
  TrainToTheFirstCheckpoint(cluster);
  Train(cluster, 2);
  ASSERT_THAT(cluster.effects.FlushRows(), IsOk());
  const auto before = cluster.run->Status(cluster.now);
  ASSERT_GT(before.update(), 10);
  cluster.workers.at(2) = FakeWorker();  // another process of that name
  const auto expect_the_same = [&](const char* when) {
    const auto status = cluster.run->Status(cluster.now);
    EXPECT_EQ(status.update(), before.update()) << when;
    EXPECT_EQ(status.tokens(), before.tokens()) << when;
    EXPECT_EQ(status.loss(), before.loss()) << when;
    EXPECT_EQ(status.smoothed_loss(), before.smoothed_loss()) << when;
    for (int stage = 0; stage < 3; ++stage) {
      EXPECT_EQ(status.stages(stage).staleness(),
                before.stages(stage).staleness());
      EXPECT_GE(status.stages(stage).weight_version(), before.update());
    }
  };
  cluster.Revive();
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  expect_the_same("when the stages are assigned");
  for (const auto& [id, worker] : std::map(cluster.workers)) cluster.Ready(id);
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_RUNNING);
  ASSERT_LT(static_cast<int64_t>(cluster.effects.rows.size()), before.update());
  expect_the_same("while one is replayed");
  const auto status = cluster.run->Status(cluster.now);
  EXPECT_THAT(
      status.stages(1).activity(),
      HasSubstr(absl::StrCat("replays up to update ", before.update())));
  EXPECT_EQ(status.stages(0).activity(), "");
  FinishAndExpectAllRows(cluster);
  EXPECT_EQ(cluster.run->Status(cluster.now).update(), 40);
}

// The coordinator died between telling one worker and telling the other: who
// was not told makes up for the cuts in between.
TEST(RunController, WhoeverWasToldLessByTheFirstLifeIsToldTheRest) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  TrainToTheFirstCheckpoint(cluster);
  cluster.deaf = {2};
  Train(cluster, 10);
  ASSERT_LT(cluster.workers.at(2).until, cluster.workers.at(1).until);
  cluster.Revive();
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  EXPECT_EQ(cluster.workers.at(4).until, cluster.workers.at(3).until);
  FinishAndExpectAllRows(cluster);
  EXPECT_THAT(cluster.effects.committed, ElementsAre(10, 20, 30, 40));
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
  // Updates 1, 4 and 8, and 12 beyond the checkpoint.
  EXPECT_EQ(status.stages(0).refreshes(), 4);
  // The budget is one of each coordinator's life: another one may be resumed.
  EXPECT_FALSE(second.exit_code().has_value());
}

// Fewer may go on after a while, also when the coordinator was lost as well.
TEST(RunController, ASecondLifeGoesOnWithFewer) {
  FakeCluster cluster(ShrinkingSetup(2));
  Start(cluster, 3);
  TrainToTheFirstCheckpoint(cluster);
  cluster.workers.erase(2);
  cluster.Revive();
  Wait(cluster, 9, {4, 5});
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_PENDING);
  Wait(cluster, 2, {4, 5});
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
  FinishAndExpectAllRows(cluster);
}

TEST(RunController, ASecondLifeWaitsFromTheFirstWorkerOn) {
  FakeCluster cluster(ShrinkingSetup(1));
  cluster.Advance(60);
  const int64_t first = cluster.Join();
  Wait(cluster, 9, {first});
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_PENDING);
  Wait(cluster, 2, {first});
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_ASSIGNING);
}

TEST(RunController, APauseOutlivesTheCoordinator) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  TrainToTheFirstCheckpoint(cluster);
  ASSERT_OK_AND_ASSIGN(const auto pause, cluster.Command(Request::VERB_PAUSE));
  for (int life = 0; life < 2; ++life) {
    cluster.Revive();
    cluster.RunAll();
    ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_PAUSED);
    EXPECT_EQ(static_cast<int64_t>(cluster.effects.rows.size()),
              pause.update());
  }
  ASSERT_THAT(cluster.Command(Request::VERB_RESUME), IsOk());
  cluster.Revive();
  FinishAndExpectAllRows(cluster);
}

TEST(RunController, AStopOutlivesTheCoordinator) {
  for (const auto verb : {Request::VERB_STOP, Request::VERB_DRAIN}) {
    for (const bool told : {true, false}) {
      FakeCluster cluster(2, 2);
      Start(cluster, 2);
      TrainToTheFirstCheckpoint(cluster);
      if (!told) cluster.deaf = {1};
      ASSERT_OK_AND_ASSIGN(const auto end, cluster.Command(verb));
      cluster.Revive();
      cluster.RunAll();
      ASSERT_EQ(cluster.run->exit_code(), 4)
          << cluster.run->Status(cluster.now).DebugString();
      EXPECT_EQ(*cluster.effects.committed.rbegin(), end.update());
      EXPECT_EQ(cluster.effects.rows.back().step, end.update());
      EXPECT_EQ(cluster.effects.LastReason(kStandingOrder), "none");
    }
  }
}

TEST(RunController, AStopThatOutlivesTheCoordinatorKeepsItsGrace) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  TrainToTheFirstCheckpoint(cluster);
  ASSERT_THAT(cluster.Command(Request::VERB_STOP), IsOk());
  cluster.Revive();
  for (int i = 0; i < 600 && !cluster.run->exit_code(); ++i) {
    Wait(cluster, 1, {3, 4});
  }
  EXPECT_EQ(cluster.run->exit_code(), 4);
  EXPECT_THAT(cluster.run->Status(cluster.now).reason(),
              HasSubstr("cluster.grace"));
}

// A worker that was asked to end while there was no coordinator hands it on
// before the others have come.
TEST(RunController, AStopBeforeTheWorkersAreFoundMakesACheckpoint) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  TrainToTheFirstCheckpoint(cluster);
  auto lost = cluster.workers.extract(2);
  cluster.Revive();
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_PENDING);
  ASSERT_THAT(cluster.Command(Request::VERB_STOP), IsOk());
  cluster.Join();
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 4);
  EXPECT_GT(*cluster.effects.committed.rbegin(), 12);
}

TEST(RunController, AStopOfWhatNobodyHoldsEndsAtOnceAtTheCheckpoint) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  TrainToTheFirstCheckpoint(cluster);
  cluster.workers.clear();
  cluster.Revive();
  ASSERT_THAT(cluster.Command(Request::VERB_STOP), IsOk());
  EXPECT_FALSE(cluster.run->exit_code().has_value());
  cluster.Join();
  cluster.Join();
  EXPECT_EQ(cluster.run->exit_code(), 4);
  EXPECT_THAT(cluster.effects.committed, ElementsAre(10));
}

TEST(RunController, AStopIsNotHeldUpByWorkersThatNeverCome) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  TrainToTheFirstCheckpoint(cluster);
  cluster.workers.clear();
  cluster.Revive();
  ASSERT_THAT(cluster.Command(Request::VERB_STOP), IsOk());
  cluster.Advance(200);
  EXPECT_EQ(cluster.run->exit_code(), 4);
}

// Whoever started all of it again wants it to go on.
TEST(RunController, AnOrderThatNobodyHasLivedThroughIsNone) {
  for (const auto verb :
       {Request::VERB_PAUSE, Request::VERB_STOP, Request::VERB_DRAIN}) {
    FakeCluster cluster(2, 2);
    Start(cluster, 2);
    TrainToTheFirstCheckpoint(cluster);
    ASSERT_THAT(cluster.Command(verb), IsOk());
    for (auto& [id, worker] : cluster.workers) worker = FakeWorker();
    cluster.Revive();
    FinishAndExpectAllRows(cluster);
  }
}

// Workers went on tracing, and status said that nothing was traced.
TEST(RunController, ATraceOutlivesTheCoordinator) {
  RunSetup setup = FakeSetup(2, 2);
  setup.config.mutable_trace()->set_every(5);
  FakeCluster cluster(setup);
  Start(cluster, 2);
  TrainToTheFirstCheckpoint(cluster);
  Request trace;
  trace.set_verb(Request::VERB_TRACE);
  for (const int64_t every : {3, 0}) {
    trace.set_trace_every(every);
    ASSERT_THAT(cluster.Command(trace), IsOk());
    for (auto& [id, worker] : cluster.workers) worker.trace_every = -1;
    cluster.Revive();
    EXPECT_EQ(cluster.run->Status(cluster.now).trace_every(), every);
    for (const auto& [id, worker] : std::map(cluster.workers)) {
      EXPECT_EQ(worker.trace_every, every);
      cluster.Ready(id);
    }
  }
  // Whoever starts all of it again has said in the config what to trace.
  for (auto& [id, worker] : cluster.workers) worker = FakeWorker();
  for (int life = 0; life < 2; ++life) {
    cluster.Revive();
    EXPECT_EQ(cluster.run->Status(cluster.now).trace_every(), 5);
    for (const auto& [id, worker] : cluster.workers) {
      EXPECT_EQ(worker.trace_every, 5);
    }
  }
}

// The first stage may have been granted more than those that are left know of,
// and its neighbour has what it sent.
TEST(RunController, ARefreshChangesNothingThatWasSentInTheFirstLife) {
  RunSetup setup = FakeSetup(3, 3);
  setup.config.mutable_optimizer()->set_name(v1::OPTIMIZER_NAME_BASIS_ROTATION);
  setup.config.mutable_optimizer()->mutable_rotation()->set_period(4);
  FakeCluster cluster(setup);
  Start(cluster, 3);
  TrainToTheFirstCheckpoint(cluster);
  const int64_t until = cluster.workers.at(2).until;
  cluster.workers.at(1) = FakeWorker();
  cluster.Revive();
  for (const auto& [id, worker] : std::map(cluster.workers)) cluster.Ready(id);
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_RUNNING);
  Request refresh;
  refresh.set_verb(Request::VERB_REFRESH);
  refresh.set_refresh_policy(v1::REFRESH_POLICY_UNIFORM);
  refresh.set_refresh_period(2);
  ASSERT_OK_AND_ASSIGN(const auto change, cluster.Command(refresh));
  EXPECT_EQ(change.update(), until + 4) << "two updates of delay";
  FinishAndExpectAllRows(cluster);
}

}  // namespace
}  // namespace gimbal::coordinator
