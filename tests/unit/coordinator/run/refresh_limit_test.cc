// What is asked for while the grants wait for a refresh plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/coordinator/run/cluster_steps.h"
#include "tests/unit/coordinator/run/refresh_steps.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;
using ::testing::Contains;
using ::testing::HasSubstr;
using Request = v1::CommandRequest;

// Stage 0 lags behind: up to 20 updates are granted, which is as far as may be
// before all have reported update 10.
class AtTheLimit : public ::testing::Test {
 protected:
  void SetUp() override {
    Start(cluster_, 2);
    for (bool moved = true; moved;) {
      moved = false;
      for (int stage = 1; stage < 4; ++stage) {
        moved = cluster_.Step(stage) || moved;
      }
      if (cluster_.workers.at(1).versions.at(0) < 9) {
        moved = cluster_.Step(0) || moved;
      }
    }
    ASSERT_EQ(Granted(), 20);
    ASSERT_TRUE(cluster_.effects.refresh_changes.empty());
  }

  int64_t Granted() const { return cluster_.workers.rbegin()->second.until; }

  void Finish() {
    cluster_.RunAll();
    ASSERT_EQ(cluster_.run->exit_code(), 0)
        << cluster_.run->Status(cluster_.now).DebugString();
    ExpectPeriodsThatFollow(cluster_, setup_.config);
  }

  const RunSetup setup_ = RotatingSetup(v1::REFRESH_POLICY_ADAPTIVE);
  FakeCluster cluster_{setup_};
};

// It once was granted under the plan before.
TEST_F(AtTheLimit, ACheckpointWaits) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto response,
                         cluster_.Command(Request::VERB_CHECKPOINT));
    EXPECT_EQ(response.update(), 21);
    EXPECT_EQ(Granted(), 20);
  }
  Finish();
  EXPECT_THAT(cluster_.effects.committed, Contains(21));
}

TEST_F(AtTheLimit, APauseComesAfterTheCheckpointThatWaits) {
  ASSERT_THAT(cluster_.Command(Request::VERB_CHECKPOINT), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto pause, cluster_.Command(Request::VERB_PAUSE));
  EXPECT_EQ(pause.update(), 21);
  EXPECT_EQ(Granted(), 20);
  cluster_.RunAll();
  ASSERT_EQ(cluster_.run->state(), v1::RUN_STATE_PAUSED);
  EXPECT_THAT(cluster_.effects.committed, Contains(21));
  EXPECT_EQ(cluster_.effects.rows.size(), 21u);
  ASSERT_THAT(cluster_.Command(Request::VERB_RESUME), IsOk());
  Finish();
}

TEST_F(AtTheLimit, ACheckpointComesAfterThePause) {
  ASSERT_OK_AND_ASSIGN(const auto pause, cluster_.Command(Request::VERB_PAUSE));
  EXPECT_EQ(pause.update(), 20);
  ASSERT_THAT(cluster_.Command(Request::VERB_CHECKPOINT), IsOk());
  EXPECT_EQ(Granted(), 20);
  cluster_.RunAll();
  ASSERT_EQ(cluster_.run->state(), v1::RUN_STATE_PAUSED);
  EXPECT_THAT(cluster_.effects.committed, Contains(21));
  ASSERT_THAT(cluster_.Command(Request::VERB_RESUME), IsOk());
  Finish();
}

// So does the end of the run, also when the coordinator dies meanwhile.
TEST_F(AtTheLimit, AnEndWaits) {
  for (const auto verb : {Request::VERB_STOP, Request::VERB_DRAIN}) {
    for (const bool dies : {false, true}) {
      FakeCluster cluster(setup_);
      Start(cluster, 2);
      for (int i = 0; i < 30; ++i) {
        for (int stage = 1; stage < 4; ++stage) cluster.Step(stage);
        if (i < 9) cluster.Step(0);
      }
      ASSERT_OK_AND_ASSIGN(const auto end, cluster.Command(verb));
      EXPECT_GT(end.update(), 20);
      EXPECT_EQ(cluster.workers.rbegin()->second.until, 20);
      if (dies) cluster.Revive();
      cluster.RunAll();
      ASSERT_EQ(cluster.run->exit_code(), 4);
      // A drain whose word had reached nobody is one all the same.
      EXPECT_EQ(*cluster.effects.committed.rbegin(), end.update());
      for (auto& [id, worker] : cluster.workers) worker = FakeWorker();
      cluster.Revive();
      cluster.RunAll();
      ASSERT_EQ(cluster.run->exit_code(), 0);
      ExpectPeriodsThatFollow(cluster, setup_.config);
    }
  }
}

TEST_F(AtTheLimit, AChangeOfThePolicyTakesTheWaitAway) {
  ASSERT_OK_AND_ASSIGN(
      const auto change,
      cluster_.Command(RefreshRequest(v1::REFRESH_POLICY_STAGE_AWARE, 3)));
  EXPECT_EQ(change.update(), 21);
  Finish();
  EXPECT_EQ(cluster_.effects.refresh_changes.size(), 1u);
}

}  // namespace
}  // namespace gimbal::coordinator
