#include "coordinator/run/run_controller.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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

// What has failed refuses them: AFatalFailureFailsTheRun.
TEST(RunController, AWorkerThatComesAfterTheEndIsNotAFailure) {
  v1::RegisterRequest late;
  late.set_data_address("x:1");
  FakeCluster complete(2, 2);
  Start(complete, 2);
  complete.RunAll();
  EXPECT_THAT(complete.run->Register(late, complete.now),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("has ended")));
  FakeCluster stopped(2, 2);
  Start(stopped, 2);
  ASSERT_THAT(stopped.Command(Request::VERB_STOP), IsOk());
  stopped.RunAll();
  ASSERT_EQ(stopped.run->exit_code(), 4);
  EXPECT_THAT(stopped.run->Register(late, stopped.now),
              StatusIs(absl::StatusCode::kUnavailable));
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

TEST(RunController, NothingNonFiniteIsCommitted) {
  FakeCluster cluster(1, 1);
  Start(cluster, 1);
  Train(cluster, 9);
  v1::WorkerMessage message;
  v1::StageUpdate& report = *message.mutable_reports()->add_updates();
  report.set_update(10);
  report.set_loss(std::numeric_limits<double>::quiet_NaN());
  v1::Evaluation& evaluation = *message.mutable_reports()->add_evaluations();
  evaluation.set_update(10);
  evaluation.set_loss(2);
  v1::WorkerMessage snapshot;
  snapshot.mutable_snapshot()->set_update(10);
  EXPECT_THAT(cluster.Say(1, snapshot), IsOk());
  EXPECT_THAT(cluster.effects.committed, ElementsAre());
  EXPECT_THAT(cluster.Say(1, message), IsOk());
  EXPECT_EQ(cluster.run->exit_code(), 3);
  EXPECT_THAT(cluster.run->Status(cluster.now).reason(),
              HasSubstr("update 10: the loss is nan"));
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
  setup.config.mutable_precision()->set_compute(v1::PRECISION_BF16);
  request.set_reduced_precision(true);
  EXPECT_EQ(count(decisions_of_a_life("avx2"), "numerics: avx2, bf16"), 1);
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
