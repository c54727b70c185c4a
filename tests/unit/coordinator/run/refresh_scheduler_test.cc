#include "coordinator/run/refresh_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/coordinator/run/cluster_steps.h"
#include "tests/unit/coordinator/run/refresh_steps.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;
using test_support::StatusIs;
using ::testing::HasSubstr;

TEST(RefreshScheduler, UniformNeedsNoPlans) {
  FakeCluster cluster(RotatingSetup(v1::REFRESH_POLICY_UNIFORM));
  Start(cluster, 2);
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  EXPECT_TRUE(cluster.effects.refresh_changes.empty());
  for (const auto& [stage, updates] : cluster.refreshes) {
    EXPECT_EQ(updates.size(), 16u) << "1, 4, 8, ..., 60";
  }
}

TEST(RefreshScheduler, AdaptivePlansFollowWhatIsMeasured) {
  FakeCluster cluster(RotatingSetup(v1::REFRESH_POLICY_ADAPTIVE));
  Start(cluster, 2);
  cluster.RunAll();
  ASSERT_EQ(cluster.run->exit_code(), 0);
  // Boundaries 10 to 60; the plans of 50 and 60 would hold from 61 and 71 on.
  const auto& changes = cluster.effects.refresh_changes;
  ASSERT_GE(changes.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(changes[i].from, 21 + 10 * static_cast<int64_t>(i));
  }
  // After update 10 the ratios are 1/4, 1/7, 1/3 and 1/6.
  EXPECT_NEAR(changes[0].periods[1] / changes[0].periods[0], 7.0 / 4, 1e-9);
  EXPECT_NEAR(changes[0].periods[3] / changes[0].periods[2], 2, 1e-9);
  EXPECT_THAT(changes[0].reason, HasSubstr("0.250, 0.143, 0.333, 0.167"));
}

// The same refreshes whatever is lost when.
TEST(RefreshScheduler, AdaptivePlansSurviveLosses) {
  FakeCluster quiet(RotatingSetup(v1::REFRESH_POLICY_ADAPTIVE));
  Start(quiet, 2);
  quiet.RunAll();
  for (int trained = 1; trained < 50; trained += 3) {
    FakeCluster cluster(RotatingSetup(v1::REFRESH_POLICY_ADAPTIVE));
    Start(cluster, 2);
    Train(cluster, trained);
    while (cluster.WriteSnapshot(1) || cluster.WriteSnapshot(2)) {
    }
    cluster.now += std::chrono::seconds(1);
    cluster.Kill(2);
    cluster.Heartbeat(1);
    cluster.Join();
    cluster.RunAll();
    ASSERT_EQ(cluster.run->exit_code(), 0) << trained;
    EXPECT_EQ(cluster.refreshes, quiet.refreshes) << trained;
    EXPECT_EQ(cluster.effects.refresh_changes, quiet.effects.refresh_changes);
  }
}

// Updates of all stages but one until they may go no further.
void RunAhead(FakeCluster& cluster, int but) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < cluster.stages(); ++stage) {
      if (stage != but) moved = cluster.Step(stage) || moved;
    }
  }
}

// Of the boundary after the next one some once reported before all had of the
// next, and their reports were lost.
TEST(RefreshScheduler, WhoReportsFirstDoesNotMatter) {
  for (const bool gathers : {false, true}) {
    for (int late = 0; late < 4; ++late) {
      const RunSetup setup = RotatingSetup(v1::REFRESH_POLICY_ADAPTIVE);
      FakeCluster cluster(setup);
      cluster.gathers = gathers;
      Start(cluster, 2);
      RunAhead(cluster, late);
      while (cluster.Step(late)) {
      }
      cluster.RunAll();
      ASSERT_EQ(cluster.run->exit_code(), 0);
      ExpectPeriodsThatFollow(cluster, setup.config);
    }
  }
}

// Workers tell again what they have told, one after the other.
TEST(RefreshScheduler, AdaptivePlansOutliveTheCoordinator) {
  for (int trained = 1; trained < 50; trained += 3) {
    RunSetup setup = RotatingSetup(v1::REFRESH_POLICY_ADAPTIVE);
    setup.config.mutable_checkpoint()->set_every(100);
    FakeCluster cluster(setup);
    Start(cluster, 2);
    Train(cluster, trained);
    cluster.Revive();
    cluster.RunAll();
    ASSERT_EQ(cluster.run->exit_code(), 0) << trained;
    ExpectPeriodsThatFollow(cluster, setup.config);
  }
}

// Far shorter than the window of the grants where updates take next to no time.
TEST(RefreshScheduler, IntervalsMayBeShort) {
  for (const int interval : {1, 2, 7, 10}) {
    RunSetup setup = RotatingSetup(v1::REFRESH_POLICY_ADAPTIVE);
    setup.config.mutable_run()->set_steps(500);
    setup.config.mutable_checkpoint()->set_every(1000);
    setup.config.mutable_optimizer()->mutable_rotation()->set_adapt_every(
        interval);
    FakeCluster cluster(setup);
    Start(cluster, 2);
    for (int i = 0; i < 500; ++i) {
      cluster.now += std::chrono::microseconds(100);
      Train(cluster, 1);
    }
    cluster.RunAll();
    ASSERT_EQ(cluster.run->exit_code(), 0) << interval;
    ExpectPeriodsThatFollow(cluster, setup.config);
  }
}

// A coordinator that finds the row, or a cut after it, finds the plan.
TEST(RefreshScheduler, APlanIsStoredBeforeTheRowThatItIsMadeOf) {
  FakeCluster cluster(RotatingSetup(v1::REFRESH_POLICY_ADAPTIVE));
  cluster.effects.on_row = [&](const MetricsRow& row) {
    const auto& changes = cluster.effects.refresh_changes;
    EXPECT_EQ(changes.size(), static_cast<size_t>(row.step / 10)) << row.step;
  };
  Start(cluster, 2);
  cluster.RunAll();
  EXPECT_EQ(cluster.effects.refresh_changes.size(), 6u);
}

TEST(RefreshScheduler, NothingIsPlannedWithoutBases) {
  RunSetup setup = RotatingSetup(v1::REFRESH_POLICY_ADAPTIVE);
  setup.config.mutable_optimizer()->set_name(v1::OPTIMIZER_NAME_ADAMW);
  FakeCluster cluster(setup);
  Start(cluster, 2);
  cluster.RunAll();
  EXPECT_EQ(cluster.run->exit_code(), 0);
  EXPECT_TRUE(cluster.effects.refresh_changes.empty());
}

TEST(RefreshScheduler, AChangeHoldsFromOneUpdateOn) {
  FakeCluster cluster(RotatingSetup(v1::REFRESH_POLICY_UNIFORM));
  Start(cluster, 2);
  Train(cluster, 3);
  const auto response =
      cluster.Command(RefreshRequest(v1::REFRESH_POLICY_UNIFORM, 2));
  ASSERT_THAT(response, IsOk());
  const int64_t from = response->update();
  cluster.RunAll();
  ASSERT_EQ(cluster.run->exit_code(), 0);
  for (const auto& [stage, updates] : cluster.refreshes) {
    for (int64_t t = 2; t <= 60; ++t) {
      EXPECT_EQ(updates.contains(t), t % (t < from ? 4 : 2) == 0) << t;
    }
  }
}

TEST(RefreshScheduler, AUserOverrulesTheAdaptivePolicy) {
  FakeCluster cluster(RotatingSetup(v1::REFRESH_POLICY_ADAPTIVE));
  Start(cluster, 2);
  Train(cluster, 12);
  const auto response =
      cluster.Command(RefreshRequest(v1::REFRESH_POLICY_UNIFORM, 5));
  ASSERT_THAT(response, IsOk());
  cluster.RunAll();
  for (const auto& [stage, updates] : cluster.refreshes) {
    for (int64_t t = response->update(); t <= 60; ++t) {
      EXPECT_EQ(updates.contains(t), t % 5 == 0) << t;
    }
  }
}

TEST(RefreshScheduler, WhatCannotBeIsRefused) {
  FakeCluster cluster(RotatingSetup(v1::REFRESH_POLICY_UNIFORM));
  Start(cluster, 2);
  EXPECT_THAT(cluster.Command(RefreshRequest(v1::REFRESH_POLICY_UNIFORM, 11)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("expected 1 to 10")));
  RunSetup adamw = RotatingSetup(v1::REFRESH_POLICY_UNIFORM);
  adamw.config.mutable_optimizer()->set_name(v1::OPTIMIZER_NAME_ADAMW);
  FakeCluster without(adamw);
  Start(without, 2);
  EXPECT_THAT(
      without.Command(RefreshRequest(v1::REFRESH_POLICY_UNIFORM, 2)),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("no bases")));
}

}  // namespace
}  // namespace gimbal::coordinator
