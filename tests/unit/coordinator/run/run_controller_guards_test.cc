// Minibatches that are left out, by a run whose processes may die.
#include <gtest/gtest.h>

#include <limits>

#include "coordinator/run/run_controller.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/coordinator/run/cluster_steps.h"
#include "tests/unit/coordinator/run/refresh_steps.h"

namespace gimbal::coordinator {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

RunSetup GuardedSetup(v1::GuardPolicy policy) {
  RunSetup setup = FakeSetup(3, 3);
  setup.config.mutable_guards()->set_nan(policy);
  setup.config.mutable_guards()->set_rollback_updates(3);
  return setup;
}

std::vector<int64_t> LeftOutRows(const FakeCluster& cluster) {
  std::vector<int64_t> steps;
  for (const MetricsRow& row : cluster.effects.rows) {
    if (!row.left_out.empty()) steps.push_back(row.step);
  }
  return steps;
}

void ExpectTheRunEndsWithout(FakeCluster& cluster,
                             const std::vector<int64_t>& left_out) {
  for (int i = 0; i < 20 && !cluster.run->exit_code().has_value(); ++i) {
    cluster.RunAll();
    cluster.Advance(0.1);
  }
  EXPECT_EQ(cluster.run->exit_code(), 0);
  EXPECT_EQ(cluster.effects.rows.size(), 40u);
  EXPECT_EQ(LeftOutRows(cluster), left_out);
  EXPECT_TRUE(cluster.effects.committed.contains(40));
}

TEST(RunControllerGuards, SkipGoesBackAndLeavesTheMinibatchOut) {
  FakeCluster cluster(GuardedSetup(v1::GUARD_POLICY_SKIP));
  cluster.bad_gradients[{1, 17}] = kNan;
  Start(cluster, 3);
  ExpectTheRunEndsWithout(cluster, {17});
  EXPECT_THAT(cluster.effects.decisions,
              Contains(HasSubstr("minibatch 17 left out: update 17: the sum of "
                                 "squared gradients of stage 1 is nan")));
  EXPECT_THAT(cluster.effects.decisions,
              Contains(HasSubstr("every stage goes back to update 10")));
  EXPECT_TRUE(cluster.run->recoveries().empty()) << "nothing was lost";
  EXPECT_TRUE(cluster.effects.restarts.empty());
  EXPECT_EQ(cluster.run->Status(cluster.now).left_out(), 1);
  EXPECT_EQ(cluster.effects.not_finite, 1) << "made again, but left out";
}

TEST(RunControllerGuards, RollbackLeavesOutThoseBeforeToo) {
  FakeCluster cluster(GuardedSetup(v1::GUARD_POLICY_ROLLBACK));
  cluster.bad_losses[13] = kNan;
  Start(cluster, 3);
  ExpectTheRunEndsWithout(cluster, {11, 12, 13});
}

TEST(RunControllerGuards, StopFailsTheRun) {
  FakeCluster cluster(GuardedSetup(v1::GUARD_POLICY_STOP));
  cluster.bad_losses[13] = kNan;
  Start(cluster, 3);
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 3);
  EXPECT_EQ(cluster.effects.rows.size(), 12u);
  EXPECT_THAT(cluster.effects.committed, ElementsAre(10));
  EXPECT_EQ(cluster.effects.not_finite, 1);
}

TEST(RunControllerGuards, BeforeTheFirstCheckpointTheRunBeginsAgain) {
  FakeCluster cluster(GuardedSetup(v1::GUARD_POLICY_SKIP));
  cluster.bad_losses[3] = kNan;
  Start(cluster, 3);
  ExpectTheRunEndsWithout(cluster, {3});
}

TEST(RunControllerGuards, NoCheckpointBeyondTheTroubleCounts) {
  FakeCluster cluster(GuardedSetup(v1::GUARD_POLICY_SKIP));
  cluster.bad_gradients[{2, 20}] = kNan;
  Start(cluster, 3);
  while (cluster.run->state() == v1::RUN_STATE_RUNNING) {
    Train(cluster, 1);
    for (int64_t id : {1, 2, 3}) cluster.WriteSnapshot(id);
  }
  EXPECT_THAT(cluster.effects.committed, ElementsAre(10));
  ExpectTheRunEndsWithout(cluster, {20});
}

TEST(RunControllerGuards, CheckpointsWithinTheRangeAreDropped) {
  RunSetup setup = GuardedSetup(v1::GUARD_POLICY_ROLLBACK);
  setup.config.mutable_guards()->set_rollback_updates(12);
  FakeCluster cluster(setup);
  cluster.bad_losses[32] = kNan;
  Start(cluster, 3);
  while (cluster.run->state() == v1::RUN_STATE_RUNNING) {
    Train(cluster, 1);
    for (int64_t id : {1, 2, 3}) cluster.WriteSnapshot(id);
  }
  EXPECT_THAT(cluster.effects.committed, ElementsAre(10, 20));
  ExpectTheRunEndsWithout(cluster,
                          {21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32});
}

TEST(RunControllerGuards, ALostWorkerKnowsWhatIsLeftOut) {
  FakeCluster cluster(GuardedSetup(v1::GUARD_POLICY_SKIP));
  cluster.bad_gradients[{0, 12}] = kNan;
  Start(cluster, 3);
  while (cluster.effects.rows.size() < 15u) {
    for (int64_t id : {1, 2, 3}) {
      cluster.Ready(id);
      cluster.WriteSnapshot(id);
    }
    Train(cluster, 1);
    cluster.Advance(0.01);
  }
  cluster.Kill(cluster.OwnerOf(0));
  const int64_t replacement = cluster.Join();
  cluster.Heartbeat(2);
  cluster.Heartbeat(3);
  EXPECT_TRUE(cluster.workers.at(replacement).left_out.contains(12));
  ExpectTheRunEndsWithout(cluster, {12});
}

// Killed after the decision was stored and before anybody went back, the
// coordinator must not let the stages go on from where they are.
TEST(RunControllerGuards, AnotherLifeGoesBackToo) {
  FakeCluster cluster(GuardedSetup(v1::GUARD_POLICY_SKIP));
  cluster.bad_gradients[{1, 17}] = kNan;
  Start(cluster, 3);
  while (cluster.run->state() == v1::RUN_STATE_RUNNING) {
    Train(cluster, 1);
    for (int64_t id : {1, 2, 3}) cluster.WriteSnapshot(id);
  }
  ASSERT_EQ(cluster.effects.left_out.size(), 1u);
  cluster.Revive();
  for (const auto& [id, worker] : cluster.workers) {
    EXPECT_FALSE(worker.loaded && worker.until > 10) << "took up what is void";
  }
  ExpectTheRunEndsWithout(cluster, {17});
}

// And once they have gone back, another life takes up what they hold.
TEST(RunControllerGuards, ALaterLifeTakesUpWhatIsHeld) {
  FakeCluster cluster(GuardedSetup(v1::GUARD_POLICY_SKIP));
  cluster.bad_gradients[{1, 17}] = kNan;
  Start(cluster, 3);
  while (cluster.effects.rows.size() < 19u) {
    for (int64_t id : {1, 2, 3}) {
      cluster.Ready(id);
      cluster.WriteSnapshot(id);
    }
    Train(cluster, 1);
    cluster.Advance(0.01);
  }
  cluster.Revive();
  EXPECT_THAT(cluster.effects.decisions,
              Contains(HasSubstr("every stage goes on")));
  ExpectTheRunEndsWithout(cluster, {17});
}

TEST(RunControllerGuards, SeveralAreDecidedOneByOne) {
  FakeCluster cluster(GuardedSetup(v1::GUARD_POLICY_SKIP));
  cluster.bad_gradients[{1, 17}] = kNan;
  cluster.bad_losses[18] = kNan;
  cluster.bad_losses[33] = kNan;
  Start(cluster, 3);
  ExpectTheRunEndsWithout(cluster, {17, 18, 33});
  EXPECT_EQ(cluster.effects.left_out.size(), 3u);
}

TEST(RunControllerGuards, AStopThatDoesNotGetItsCheckpointEnds) {
  RunSetup setup = GuardedSetup(v1::GUARD_POLICY_STOP);
  setup.config.mutable_cluster()->mutable_grace()->set_seconds(5);
  FakeCluster cluster(setup);
  Start(cluster, 3);
  TrainToTheFirstCheckpoint(cluster);
  ASSERT_TRUE(cluster.Command(v1::CommandRequest::VERB_STOP).ok());
  Wait(cluster, 4, {1, 2, 3});
  EXPECT_FALSE(cluster.run->exit_code().has_value());
  Wait(cluster, 2, {1, 2, 3});
  EXPECT_EQ(cluster.run->exit_code(), 4) << "at the checkpoint of update 10";
}

// Plans made of void updates once stayed, or not, as reports happened to come.
TEST(RunControllerGuards, RefreshPlansAreMadeAnewWithoutWhatIsLeftOut) {
  for (const auto policy : {v1::GUARD_POLICY_SKIP, v1::GUARD_POLICY_ROLLBACK}) {
    for (int64_t bad = 8; bad < 50; ++bad) {
      for (const bool dies : {false, true}) {
        RunSetup setup = RotatingSetup(v1::REFRESH_POLICY_ADAPTIVE);
        setup.config.mutable_checkpoint()->set_every(6);
        setup.config.mutable_guards()->set_nan(policy);
        setup.config.mutable_guards()->set_rollback_updates(15);
        FakeCluster cluster(setup);
        cluster.bad_gradients[{2, bad}] = kNan;
        Start(cluster, 2);
        while (cluster.effects.left_out.empty()) {
          for (int stage = 3; stage >= 0; --stage) cluster.Step(stage);
          cluster.WriteSnapshot(1);
          cluster.WriteSnapshot(2);
        }
        if (dies) cluster.Revive();
        for (int i = 0; i < 20 && !cluster.run->exit_code(); ++i) {
          cluster.RunAll();
          cluster.Advance(0.1);
        }
        ASSERT_EQ(cluster.run->exit_code(), 0);
        ExpectPeriodsThatFollow(cluster, setup.config);
      }
    }
  }
}

}  // namespace
}  // namespace gimbal::coordinator
