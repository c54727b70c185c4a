#include "coordinator/run/standstill.h"

#include <gtest/gtest.h>

namespace gimbal::coordinator {
namespace {

// Three stages of which the first two wait for the last.
v1::GetStatusResponse Waiting() {
  v1::GetStatusResponse status;
  status.set_steps(100);
  for (int s = 0; s < 3; ++s) {
    v1::StageView* stage = status.add_stages();
    stage->set_stage(s);
    stage->set_worker_id(s + 1);
    stage->set_weight_version(10);
    v1::WorkerView* worker = status.add_workers();
    worker->set_worker_id(s + 1);
    worker->set_name("w" + std::to_string(s));
    worker->set_pid(40 + s);
    worker->set_state("training");
  }
  status.mutable_stages(0)->set_activity("waits for backward 9 from stage 1");
  status.mutable_stages(1)->set_activity("waits for backward 9 from stage 2");
  status.mutable_stages(2)->set_activity("forward 9");
  return status;
}

TEST(Standstill, NamesTheStageThatTheOthersWaitFor) {
  EXPECT_EQ(Standstill(Waiting(), 7.2, ""),
            "no update for 7 s: stage 2 (w2, pid 42): forward 9");
}

TEST(Standstill, NamesAWorkerThatIsSilentFirst) {
  v1::GetStatusResponse status = Waiting();
  status.mutable_workers(1)->set_heartbeat_age_seconds(6.8);
  EXPECT_EQ(Standstill(status, 7, ""),
            "no update for 7 s: stage 1 (w1, pid 41) is silent for 6.8 s");
}

TEST(Standstill, SaysWhatAStageWaitsForThatIsNoStage) {
  v1::GetStatusResponse status = Waiting();
  status.mutable_stages(2)->set_activity(
      "waits for the last snapshot to be written");
  EXPECT_EQ(Standstill(status, 3, ""),
            "no update for 3 s: stage 2 (w2, pid 42): waits for the last "
            "snapshot to be written");
}

TEST(Standstill, NamesWhoIsStillLoading) {
  v1::GetStatusResponse status = Waiting();
  status.mutable_workers(0)->set_state("loading");
  EXPECT_EQ(Standstill(status, 3, ""),
            "no update for 3 s: stage 0 (w0, pid 40) is loading");
}

// A stage that lacks a worker holds up others until these are silent, too.
TEST(Standstill, NamesAStageWithoutAWorkerFirst) {
  v1::GetStatusResponse status = Waiting();
  status.mutable_stages(2)->set_worker_id(0);
  status.mutable_workers(0)->set_heartbeat_age_seconds(9);
  EXPECT_EQ(Standstill(status, 3, MissingText({2}, "w2 was lost", 2, 3)),
            "no update for 3 s: stage 2 has no worker (w2 was lost); 2 of 3 "
            "workers are there");
}

// The first one in the order of the stages was named once.
TEST(Standstill, OfTwoThatAreSilentNamesTheOneThatIsSoForLonger) {
  v1::GetStatusResponse status = Waiting();
  status.mutable_workers(0)->set_heartbeat_age_seconds(1.4);
  status.mutable_workers(1)->set_heartbeat_age_seconds(8);
  status.mutable_workers(2)->set_heartbeat_age_seconds(7.9);
  EXPECT_EQ(Standstill(status, 7, ""),
            "no update for 7 s: stage 1 (w1, pid 41) is silent for 8.0 s");
}

TEST(Standstill, CountsTheWorkersThatAreMissing) {
  EXPECT_EQ(MissingText({}, "x", 3, 4), "3 of 4 workers are there");
  EXPECT_EQ(MissingText({1, 3}, "", 2, 4),
            "stages 1, 3 have no worker; 2 of 4 workers are there");
}

TEST(Standstill, AfterTheLastUpdateTheCheckpointIsMissing) {
  v1::GetStatusResponse status = Waiting();
  status.set_update(100);
  EXPECT_EQ(Standstill(status, 4, ""),
            "no update for 4 s: the last checkpoint is being written");
}

}  // namespace
}  // namespace gimbal::coordinator
