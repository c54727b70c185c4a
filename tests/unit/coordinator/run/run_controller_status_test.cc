// What status says of a run that does not run as it should.
#include <gtest/gtest.h>

#include "coordinator/run/run_controller.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/coordinator/run/cluster_steps.h"

namespace gimbal::coordinator {
namespace {

using test_support::IsOk;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Request = v1::CommandRequest;

// Two updates a second, of which everybody is heard.
void TrainForSeconds(FakeCluster& cluster, int seconds) {
  for (int i = 0; i < 2 * seconds; ++i) {
    cluster.Advance(0.5);
    Train(cluster, 1);
  }
}

v1::GetStatusResponse StatusOf(const FakeCluster& cluster) {
  return cluster.run->Status(cluster.now);
}

// Speed and time left were once those of better times for ever.
TEST(RunControllerStatus, ARunThatStandsStillHasNoSpeed) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  TrainForSeconds(cluster, 4);
  EXPECT_EQ(StatusOf(cluster).tokens_per_second(), 32);
  EXPECT_EQ(StatusOf(cluster).eta_seconds(), 16);
  Wait(cluster, 2, {1, 2});
  EXPECT_EQ(StatusOf(cluster).tokens_per_second(), 32) << "a hiccup";
  Wait(cluster, 2, {1, 2});
  EXPECT_EQ(StatusOf(cluster).tokens_per_second(), 0);
  EXPECT_FALSE(StatusOf(cluster).has_eta_seconds());
  EXPECT_THAT(StatusOf(cluster).standstill(), StartsWith("no update for 4 s"));
  TrainForSeconds(cluster, 1);
  EXPECT_EQ(StatusOf(cluster).tokens_per_second(), 32);
  EXPECT_EQ(StatusOf(cluster).eta_seconds(), 15);
}

TEST(RunControllerStatus, APauseChangesNoSpeed) {
  FakeCluster cluster(1, 1);
  Start(cluster, 1);
  TrainForSeconds(cluster, 4);
  ASSERT_THAT(cluster.Command(Request::VERB_PAUSE), IsOk());
  for (int i = 0; i < 20 && cluster.run->state() != v1::RUN_STATE_PAUSED; ++i) {
    TrainForSeconds(cluster, 1);
  }
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_PAUSED);
  EXPECT_EQ(StatusOf(cluster).tokens_per_second(), 0);
  EXPECT_FALSE(StatusOf(cluster).has_eta_seconds());
  Wait(cluster, 600, {1});
  EXPECT_EQ(StatusOf(cluster).standstill(), "");
  ASSERT_THAT(cluster.Command(Request::VERB_RESUME), IsOk());
  TrainForSeconds(cluster, 1);
  EXPECT_EQ(StatusOf(cluster).tokens_per_second(), 32);
  EXPECT_EQ(StatusOf(cluster).eta_seconds(),
            (40 - StatusOf(cluster).update()) / 2.0);
}

TEST(RunControllerStatus, ANewCoordinatorKnowsTheSpeed) {
  FakeCluster cluster(2, 2);
  Start(cluster, 2);
  TrainForSeconds(cluster, 6);
  for (int64_t id : {1, 2}) cluster.WriteSnapshot(id);
  TrainForSeconds(cluster, 3);
  cluster.Revive();
  ASSERT_EQ(cluster.effects.rows.size(), 10u);
  for (const auto& [id, worker] : std::map(cluster.workers)) cluster.Ready(id);
  TrainForSeconds(cluster, 1);
  EXPECT_EQ(StatusOf(cluster).update(), 20);
  EXPECT_EQ(StatusOf(cluster).tokens_per_second(), 32);
}

TEST(RunControllerStatus, SaysWhichStageWaitsForAWorker) {
  FakeCluster cluster(ShrinkingSetup(0));
  Start(cluster, 3);
  TrainToTheFirstCheckpoint(cluster);
  // The neighbour's word comes first, and blames the neighbour.
  v1::WorkerMessage failure;
  failure.mutable_failure()->set_kind(v1::WorkerFailure::KIND_LINK);
  failure.mutable_failure()->set_stage(2);
  failure.mutable_failure()->set_edge(1);
  failure.mutable_failure()->set_reason("the peer closed the connection");
  cluster.now += std::chrono::milliseconds(1);
  ASSERT_THAT(cluster.Say(3, failure), IsOk());
  ASSERT_THAT(StatusOf(cluster).reason(), HasSubstr("worker 3, stage 2"));
  cluster.Kill(2);
  EXPECT_EQ(StatusOf(cluster).reason(),
            "worker 2 (w) was lost: its connection ended");
  Wait(cluster, 5, {1, 3});
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_RECOVERING);
  constexpr char kMissing[] =
      "stage 1 has no worker (w was lost: its connection ended); 2 of 3 "
      "workers are there";
  EXPECT_THAT(StatusOf(cluster).standstill(), HasSubstr(kMissing));
  EXPECT_EQ(StatusOf(cluster).stages(1).activity(), "waits for a worker");
  // The same standstill goes on in another state.
  Wait(cluster, 6, {1, 3});
  ASSERT_EQ(cluster.run->state(), v1::RUN_STATE_WAITING_FOR_CAPACITY);
  EXPECT_THAT(StatusOf(cluster).standstill(),
              StartsWith(std::string("no update for 10 s: ") + kMissing));
  EXPECT_EQ(StatusOf(cluster).reason(),
            std::string(kMissing) + "; cluster.min_workers is 0 (all of them)");
  // And the reason stays true.
  cluster.Kill(3);
  Wait(cluster, 1, {1});
  EXPECT_THAT(StatusOf(cluster).reason(),
              StartsWith("stages 1, 2 have no worker (w was lost: its "
                         "connection ended); 1 of 3 workers are there"));
  cluster.Join();
  cluster.Join();
  FinishAndExpectAllRows(cluster);
}

// They were once called spares while the run waited for a fourth.
TEST(RunControllerStatus, WorkersOfARunThatHasNotBegunWait) {
  FakeCluster cluster(2, 2);
  EXPECT_EQ(StatusOf(cluster).standstill(), "") << "just begun";
  cluster.Join();
  EXPECT_EQ(StatusOf(cluster).workers(0).state(), "waiting");
  Wait(cluster, 4, {1});
  EXPECT_EQ(StatusOf(cluster).reason(),
            "stages 0, 1 have no worker; 1 of 2 workers are there");
  EXPECT_EQ(StatusOf(cluster).standstill(),
            "no update for 4 s: stages 0, 1 have no worker; 1 of 2 workers "
            "are there");
  cluster.Join();
  EXPECT_EQ(StatusOf(cluster).workers(1).state(), "loading");
  cluster.Join();
  EXPECT_EQ(StatusOf(cluster).workers(2).state(), "spare");
}

}  // namespace
}  // namespace gimbal::coordinator
