#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <set>

#include "coordinator/run/run_controller.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/coordinator/run/cluster_steps.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using Request = v1::CommandRequest;

TEST(RunControllerCommands, PausesAndResumesAtOneUpdate) {
  FakeCluster cluster(3, 3);
  Start(cluster, 3);
  Train(cluster, 2);
  ASSERT_OK_AND_ASSIGN(auto response, cluster.Command(Request::VERB_PAUSE));
  const int64_t at = response.update();
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_RUNNING);
  cluster.RunAll();
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_PAUSED);
  EXPECT_EQ(cluster.effects.rows.back().step, at);
  EXPECT_FALSE(cluster.Step(0));
  ASSERT_OK_AND_ASSIGN(response, cluster.Command(Request::VERB_RESUME));
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_RUNNING);
  EXPECT_THAT(
      cluster.Command(Request::VERB_RESUME),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not paused")));
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  ExpectAllRows(cluster);
}

TEST(RunControllerCommands, APauseOutlivesALoss) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  Train(cluster, 12);
  ASSERT_OK_AND_ASSIGN(const auto response,
                       cluster.Command(Request::VERB_PAUSE));
  cluster.RunAll();
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_PAUSED);
  cluster.Kill(2);
  cluster.Heartbeat(1);
  cluster.Join();
  cluster.RunAll();
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_PAUSED);
  EXPECT_EQ(cluster.effects.rows.back().step, response.update());
}

TEST(RunControllerCommands, TracesOnEveryWorkerAndOnThoseThatComeLater) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  Train(cluster, 3);
  for (const auto& [id, worker] : cluster.workers) {
    EXPECT_EQ(worker.trace_every, 0);
  }
  Request request;
  request.set_verb(Request::VERB_TRACE);
  request.set_trace_every(4);
  ASSERT_THAT(cluster.Command(request), IsOk());
  EXPECT_EQ(cluster.run->Status(cluster.now).trace_every(), 4);
  cluster.Kill(2);
  cluster.Heartbeat(1);
  cluster.Join();
  cluster.RunAll();
  for (const auto& [id, worker] : cluster.workers) {
    EXPECT_EQ(worker.trace_every, 4) << "worker " << id;
  }
  ExpectAllRows(cluster);
  EXPECT_THAT(cluster.Command(request),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("the run has ended")));
}

// A trace on a full disk once was said to be recorded.
TEST(RunControllerCommands, AWorkerThatRecordsNoTraceIsOneDecision) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  const auto decisions = [&] {
    return std::ranges::count_if(
        cluster.effects.decisions, [](const std::string& decision) {
          return decision.starts_with("worker 2 (w) records no trace: ");
        });
  };
  cluster.workers.at(2).trace_failure = "cannot write /run/trace/2: disk full";
  Wait(cluster, 10, {1, 2});
  EXPECT_EQ(decisions(), 0) << "nobody was told to";
  Request trace;
  trace.set_verb(Request::VERB_TRACE);
  for (const int64_t every : {1, 0, 4}) {
    const auto before = decisions();
    trace.set_trace_every(every);
    ASSERT_THAT(cluster.Command(trace), IsOk());
    Wait(cluster, 3, {1, 2});
    EXPECT_EQ(decisions(), before) << "it may just begin";
    Wait(cluster, 20, {1, 2});
    EXPECT_EQ(decisions(), before + (every > 0 ? 1 : 0));
    const v1::GetStatusResponse status = cluster.run->Status(cluster.now);
    EXPECT_EQ(status.workers(0).trace_failure(), "");
    EXPECT_EQ(status.workers(1).trace_failure(),
              every > 0 ? "cannot write /run/trace/2: disk full" : "");
  }
  EXPECT_THAT(cluster.effects.LastReason("worker 2 (w) records no trace"),
              HasSubstr("cannot write /run/trace/2: disk full; `gimbal trace"));
  for (const std::string& decision : cluster.effects.decisions) {
    EXPECT_FALSE(decision.starts_with("worker 1 (w) records")) << decision;
  }
}

// Whoever reads events.jsonl once had to find it in the words.
TEST(RunControllerCommands, ADecisionHasTheUpdateThatItNames) {
  RunSetup setup = FakeSetup(2, 2);
  setup.config.mutable_optimizer()->set_name(v1::OPTIMIZER_NAME_BASIS_ROTATION);
  setup.config.mutable_optimizer()->mutable_rotation()->set_period(4);
  FakeCluster cluster(setup);
  Start(cluster, 2);
  TrainToTheFirstCheckpoint(cluster);
  Request refresh;
  refresh.set_verb(Request::VERB_REFRESH);
  refresh.set_refresh_policy(v1::REFRESH_POLICY_UNIFORM);
  refresh.set_refresh_period(2);
  ASSERT_THAT(cluster.Command(refresh), IsOk());
  cluster.Kill(2);
  cluster.Heartbeat(1);
  cluster.Heartbeat(cluster.Join());
  for (const int64_t id : {1, 3}) cluster.Ready(id);
  for (const auto verb : {Request::VERB_PAUSE, Request::VERB_CHECKPOINT,
                          Request::VERB_RESUME, Request::VERB_STOP}) {
    ASSERT_THAT(cluster.Command(verb), IsOk());
  }
  const std::regex names("(?:update|checkpoint) ([0-9]+)");
  std::set<std::string> kinds;
  for (const std::string& decision : cluster.effects.decisions) {
    const std::string what = decision.substr(0, decision.find(": "));
    std::smatch found;
    if (!std::regex_search(what, found, names)) continue;
    kinds.insert(what.substr(0, what.find(' ')));
    const auto update = cluster.effects.updates.find(what);
    ASSERT_NE(update, cluster.effects.updates.end()) << what;
    EXPECT_EQ(std::to_string(update->second), found[1].str()) << what;
  }
  EXPECT_THAT(kinds, IsSupersetOf({"checkpoint", "basis", "stage", "pauses",
                                   "takes", "goes", "stops"}));
}

// 30 of them once filled what status shows of the decisions.
TEST(RunControllerCommands, WhatChangesNothingIsNoDecision) {
  RunSetup setup = FakeSetup(2, 2);
  setup.config.mutable_optimizer()->set_name(v1::OPTIMIZER_NAME_BASIS_ROTATION);
  setup.config.mutable_optimizer()->mutable_rotation()->set_period(4);
  FakeCluster cluster(setup);
  Start(cluster, 2);
  Train(cluster, 3);
  Request refresh;
  refresh.set_verb(Request::VERB_REFRESH);
  refresh.set_refresh_policy(v1::REFRESH_POLICY_UNIFORM);
  refresh.set_refresh_period(2);
  Request trace;
  trace.set_verb(Request::VERB_TRACE);
  trace.set_trace_every(3);
  Request pause;
  pause.set_verb(Request::VERB_PAUSE);
  for (const Request& request : {refresh, trace, pause}) {
    const size_t before = cluster.effects.decisions.size();
    ASSERT_THAT(cluster.Command(request), IsOk());
    const size_t once = cluster.effects.decisions.size();
    EXPECT_GT(once, before);
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK_AND_ASSIGN(const auto again, cluster.Command(request));
      EXPECT_THAT(again.message(), HasSubstr("already"));
    }
    EXPECT_EQ(cluster.effects.decisions.size(), once);
  }
  EXPECT_EQ(cluster.effects.refresh_changes.size(), 1u);
  for (const auto verb : {Request::VERB_DRAIN, Request::VERB_STOP}) {
    ASSERT_THAT(cluster.Command(Request::VERB_DRAIN), IsOk());
    const size_t once = cluster.effects.decisions.size();
    ASSERT_THAT(cluster.Command(verb), IsOk());
    EXPECT_EQ(cluster.effects.decisions.size(), once);
  }
}

TEST(RunControllerCommands, TakesACheckpointOnDemand) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  Train(cluster, 3);
  ASSERT_OK_AND_ASSIGN(auto response,
                       cluster.Command(Request::VERB_CHECKPOINT));
  const int64_t first = response.update();
  ASSERT_THAT(cluster.Command(Request::VERB_PAUSE), IsOk());
  cluster.RunAll();
  EXPECT_THAT(cluster.effects.committed, Contains(first));
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_PAUSED);
  // A paused run moves on by one update.
  ASSERT_OK_AND_ASSIGN(response, cluster.Command(Request::VERB_CHECKPOINT));
  cluster.RunAll();
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_PAUSED);
  EXPECT_THAT(cluster.effects.committed, Contains(response.update()));
  EXPECT_EQ(cluster.effects.rows.back().step, response.update());
}

// It once moved on by the last update and completed the run.
TEST(RunControllerCommands, APausedRunIsNotCompletedByACheckpoint) {
  FakeCluster cluster(1, 1);
  Start(cluster, 1);
  ASSERT_THAT(cluster.Command(Request::VERB_PAUSE), IsOk());
  cluster.RunAll();
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_PAUSED);
  while (cluster.effects.rows.size() < 39) {
    ASSERT_THAT(cluster.Command(Request::VERB_CHECKPOINT), IsOk());
    cluster.RunAll();
    ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_PAUSED);
  }
  EXPECT_THAT(cluster.Command(Request::VERB_CHECKPOINT),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("`gimbal resume` completes it")));
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_PAUSED);
}

TEST(RunControllerCommands, StopsAtACommittedCheckpoint) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  Train(cluster, 3);
  ASSERT_OK_AND_ASSIGN(const auto response,
                       cluster.Command(Request::VERB_STOP));
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_DRAINING);
  ASSERT_OK_AND_ASSIGN(const auto again, cluster.Command(Request::VERB_STOP));
  EXPECT_EQ(again.update(), response.update());
  cluster.RunAll();
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_STOPPED);
  EXPECT_EQ(cluster.run->exit_code(), 4);
  EXPECT_EQ(*cluster.effects.committed.rbegin(), response.update());
  EXPECT_EQ(cluster.effects.rows.back().step, response.update());
}

TEST(RunControllerCommands, DrainsWhatIsInFlight) {
  FakeCluster cluster(4, 4);
  Start(cluster, 4);
  Train(cluster, 3);
  ASSERT_OK_AND_ASSIGN(const auto response,
                       cluster.Command(Request::VERB_DRAIN));
  cluster.RunAll();
  EXPECT_EQ(cluster.run->state(), v1::RUN_STATE_STOPPED);
  EXPECT_EQ(cluster.run->exit_code(), 4);
  EXPECT_EQ(*cluster.effects.committed.rbegin(), response.update());
  for (const auto& [id, worker] : cluster.workers) {
    EXPECT_TRUE(worker.finished);
    EXPECT_EQ(worker.final_update, response.update());
  }
}

TEST(RunControllerCommands, StopsAtOnceWhileNothingTrains) {
  FakeCluster cluster(2, 2);
  cluster.Join();
  ASSERT_THAT(cluster.Command(Request::VERB_STOP), IsOk());
  // Exit code 4 would promise a checkpoint.
  EXPECT_EQ(cluster.run->exit_code(), 3);
  EXPECT_THAT(cluster.run->Status(cluster.now).reason(),
              HasSubstr("before the first checkpoint was committed: stopped "
                        "while nothing was training: test"));
  EXPECT_THAT(cluster.Command(Request::VERB_STOP),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(RunControllerCommands, StopsAtOnceWhenNothingWasDoneSinceTheCheckpoint) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  ASSERT_THAT(cluster.Command(Request::VERB_PAUSE), IsOk());
  cluster.RunAll();
  ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                       cluster.Command(Request::VERB_CHECKPOINT));
  cluster.RunAll();
  ASSERT_EQ(*cluster.effects.committed.rbegin(), checkpoint.update());
  cluster.Kill(1);
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_RECOVERING);
  ASSERT_THAT(cluster.Command(Request::VERB_STOP), IsOk());
  EXPECT_EQ(cluster.run->exit_code(), 4);
}

// What a lost worker did not tell of in time is to lose nothing: somebody takes
// its stages over, and the checkpoint is made.
class StopAndLoss : public ::testing::TestWithParam<bool> {
 protected:
  StopAndLoss() {
    Start(cluster_, 2);
    if (GetParam()) TrainToTheFirstCheckpoint(cluster_);
    Train(cluster_, 3);
    rows_ = cluster_.effects.rows.size();
  }

  void ComeBackAndExpectTheCheckpoint(int64_t update) {
    EXPECT_FALSE(cluster_.run->exit_code().has_value());
    cluster_.now += std::chrono::milliseconds(10);
    cluster_.Heartbeat(2);
    cluster_.Join();
    cluster_.RunAll();
    EXPECT_EQ(cluster_.run->exit_code(), 4)
        << cluster_.run->Status(cluster_.now).DebugString();
    EXPECT_GT(update, static_cast<int64_t>(rows_));
    EXPECT_EQ(*cluster_.effects.committed.rbegin(), update);
    EXPECT_EQ(cluster_.effects.rows.back().step, update);
  }

  void ExpectTheEndAfterTheGrace() {
    for (int i = 0; i < 200 && !cluster_.run->exit_code(); ++i) {
      Wait(cluster_, 1, {2});
      EXPECT_FALSE(i < 100 && cluster_.run->exit_code().has_value());
    }
    EXPECT_EQ(cluster_.run->exit_code(), GetParam() ? 4 : 3);
    EXPECT_THAT(cluster_.run->Status(cluster_.now).reason(),
                HasSubstr("cluster.grace"));
  }

  FakeCluster cluster_{2, 2};
  size_t rows_ = 0;
};

TEST_P(StopAndLoss, ALossWhileStopping) {
  ASSERT_OK_AND_ASSIGN(const auto stop, cluster_.Command(Request::VERB_STOP));
  cluster_.Kill(1);
  ComeBackAndExpectTheCheckpoint(stop.update());
}

TEST_P(StopAndLoss, ALossWhileStoppingThatNobodyMakesGood) {
  ASSERT_THAT(cluster_.Command(Request::VERB_STOP), IsOk());
  cluster_.Kill(1);
  ExpectTheEndAfterTheGrace();
}

TEST_P(StopAndLoss, AStopWhileRecovering) {
  cluster_.Kill(1);
  ASSERT_EQ(cluster_.run->state(), v1::RUN_STATE_RECOVERING);
  ASSERT_OK_AND_ASSIGN(const auto stop, cluster_.Command(Request::VERB_STOP));
  ASSERT_OK_AND_ASSIGN(const auto again, cluster_.Command(Request::VERB_STOP));
  EXPECT_EQ(again.update(), stop.update());
  ComeBackAndExpectTheCheckpoint(stop.update());
}

TEST_P(StopAndLoss, AStopWhileRecoveringThatNobodyMakesGood) {
  cluster_.Kill(1);
  ASSERT_THAT(cluster_.Command(Request::VERB_STOP), IsOk());
  ExpectTheEndAfterTheGrace();
}

TEST_P(StopAndLoss, ALossWhileDraining) {
  ASSERT_OK_AND_ASSIGN(const auto drain, cluster_.Command(Request::VERB_DRAIN));
  cluster_.Kill(1);
  ComeBackAndExpectTheCheckpoint(drain.update());
}

TEST_P(StopAndLoss, AStopOfADrainThatWaitsForAWorker) {
  ASSERT_THAT(cluster_.Command(Request::VERB_DRAIN), IsOk());
  cluster_.Kill(1);
  Wait(cluster_, 200, {2});
  EXPECT_FALSE(cluster_.run->exit_code().has_value());
  ASSERT_THAT(cluster_.Command(Request::VERB_STOP), IsOk());
  ExpectTheEndAfterTheGrace();
}

// The checkpoint of the stop is there already when the worker is lost.
TEST_P(StopAndLoss, NobodyIsWaitedForOnceTheCheckpointIsMade) {
  ASSERT_OK_AND_ASSIGN(const auto stop, cluster_.Command(Request::VERB_STOP));
  while (cluster_.Step(0) || cluster_.Step(1)) {
  }
  while (cluster_.WriteSnapshot(1)) {
  }
  cluster_.Kill(1);
  while (cluster_.WriteSnapshot(2)) {
  }
  EXPECT_EQ(cluster_.run->exit_code(), 4);
  EXPECT_EQ(*cluster_.effects.committed.rbegin(), stop.update());
}

INSTANTIATE_TEST_SUITE_P(ACheckpointIsThere, StopAndLoss, ::testing::Bool());

TEST(RunControllerCommands, CommandsSayWhyTheyAreRefused) {
  FakeCluster cluster(2, 2);
  for (auto verb : {Request::VERB_PAUSE, Request::VERB_RESUME,
                    Request::VERB_CHECKPOINT, Request::VERB_DRAIN}) {
    EXPECT_THAT(cluster.Command(verb),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("it is PENDING")));
  }
  EXPECT_THAT(cluster.Command(Request::VERB_UNSPECIFIED),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace gimbal::coordinator
