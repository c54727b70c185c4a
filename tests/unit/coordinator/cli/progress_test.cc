#include "coordinator/cli/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/format.h"

namespace gimbal::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

v1::GetStatusResponse Running(int stages) {
  v1::GetStatusResponse status;
  status.set_name("demo");
  status.set_state(v1::RUN_STATE_RUNNING);
  status.set_update(120);
  status.set_steps(600);
  status.set_tokens_per_second(12340.6);
  status.set_loss(2.43125);
  status.set_eta_seconds(65);
  for (int s = 0; s < stages; ++s) {
    v1::StageView* stage = status.add_stages();
    stage->set_stage(s);
    stage->set_layers("block");
    stage->set_delay_expected(stages - 1 - s);
    stage->set_staleness(stages - 1 - s);
  }
  return status;
}

TEST(ProgressTest, LineSaysItAll) {
  v1::GetStatusResponse status = Running(4);
  status.set_valid_loss(2.5);
  status.set_valid_update(100);
  EXPECT_EQ(ProgressLine(status),
            "update 120/600  loss 2.4312  valid 2.5000 at 100  12,340 tokens/s"
            "  staleness 3,2,1,0 (expected 3,2,1,0)  ETA 1 m 05 s");
  status.set_left_out(3);
  EXPECT_THAT(ProgressLine(status), HasSubstr("  3 left out  ETA"));
}

TEST(ProgressTest, WhatIsUnknownIsLeftOut) {
  v1::GetStatusResponse status = Running(1);
  status.clear_loss();
  status.clear_eta_seconds();
  status.mutable_stages(0)->clear_staleness();
  status.set_state(v1::RUN_STATE_WAITING_FOR_CAPACITY);
  const std::string line = ProgressLine(status);
  EXPECT_THAT(line, Not(HasSubstr("loss")));
  EXPECT_THAT(line, Not(HasSubstr("ETA")));
  EXPECT_THAT(line, HasSubstr("staleness - (expected 0)"));
  EXPECT_THAT(line, HasSubstr("[waiting for capacity]"));
}

TEST(ProgressTest, TheMeanIsOfAsManyUpdatesAsThereAre) {
  v1::GetStatusResponse status = Running(1);
  status.set_smoothed_loss(2.5);
  EXPECT_THAT(StatusReport(status), HasSubstr("mean of 50: 2.5000"));
  status.set_update(7);
  EXPECT_THAT(StatusReport(status), HasSubstr("mean of 7: 2.5000"));
  status.set_left_out(3);
  EXPECT_THAT(StatusReport(status), HasSubstr("mean of 4: 2.5000"));
}

TEST(ProgressTest, BlockHasARowPerStageUnlessThereAreMany) {
  EXPECT_EQ(ProgressBlock(Running(4)).size(), 3 + 2 + 4);
  EXPECT_EQ(ProgressBlock(Running(64)).size(), 3 + 1);
}

TEST(ProgressTest, BlockFitsOn80Columns) {
  v1::GetStatusResponse status = Running(16);
  status.set_update(1234567);
  status.set_steps(99999999);
  for (v1::StageView& stage : *status.mutable_stages()) {
    stage.set_worker_id(1);
    stage.set_weight_version(1234567);
    stage.set_layers("embedding, blocks 100-104, head");
    stage.set_activity("waits for forward 1234567 from stage 1");
  }
  v1::WorkerView* worker = status.add_workers();
  worker->set_worker_id(1);
  worker->set_name("worker-15");
  for (const std::string& line : ProgressBlock(status)) {
    EXPECT_LE(ColumnsOf(line), 80) << line;
  }
  EXPECT_LE(ProgressBlock(status).size(), 23);
}

// "checkpoint 6" once was that of update 600.
TEST(ProgressTest, NoNumberIsCutApart) {
  v1::GetStatusResponse status = Running(2);
  status.set_valid_loss(2.5);
  status.set_valid_update(100);
  status.set_smoothed_loss(2.5);
  status.set_last_checkpoint(600);
  status.set_left_out(3);
  const std::string all =
      "loss 2.4312  valid 2.5000 at 100  mean of 50: 2.5000  12,340 tokens/s"
      "  checkpoint 600  3 left out";
  EXPECT_THAT(StatusReport(status, 100), HasSubstr(all));
  for (size_t columns = 11; columns < 100; ++columns) {
    const std::string line = ProgressBlock(status, {columns, 24})[2];
    EXPECT_LE(ColumnsOf(line), columns);
    const std::vector<std::string> parts = absl::StrSplit(line, "  ");
    for (const std::string& part : parts) {
      EXPECT_THAT(all + "  ", HasSubstr(part + "  "));
    }
  }
  EXPECT_EQ(ProgressBlock(status)[2],
            "loss 2.4312  valid 2.5000 at 100  12,340 tokens/s  checkpoint 600"
            "  3 left out");
  status.set_standstill(std::string(100, 'x'));
  EXPECT_EQ(ProgressBlock(status)[3], std::string(79, 'x') + "…");
}

TEST(ProgressTest, SaysHowManyStagesHaveNoPlace) {
  const v1::GetStatusResponse status = Running(16);
  const auto block = ProgressBlock(status, {80, 11});
  ASSERT_EQ(block.size(), 11u);
  EXPECT_EQ(block.back(), "+11 stages");
  EXPECT_THAT(block[9], HasSubstr("    4  "));
  EXPECT_EQ(ProgressBlock(status, {80, 4}).back(), "+16 stages");
  EXPECT_EQ(ProgressBlock(status, {80, 2}).size(), 2u);
  EXPECT_EQ(ProgressBlock(status, {80, 20}).back(), "+2 stages");
  EXPECT_THAT(ProgressBlock(status, {80, 21}).back(), HasSubstr("   15  "));
}

TEST(ProgressTest, SaysWhoHoldsTheRunUp) {
  v1::GetStatusResponse status = Running(2);
  status.set_standstill("no update for 7 s: stage 1 (w, pid 2) is silent");
  for (const std::string& text :
       {ProgressLine(status), StatusReport(status), ProgressBlock(status)[3]}) {
    EXPECT_THAT(text, HasSubstr("no update for 7 s: stage 1"));
  }
}

TEST(ProgressTest, ReportNamesReasonAndWorkers) {
  v1::GetStatusResponse status = Running(1);
  status.set_state(v1::RUN_STATE_RECOVERING);
  status.set_reason("worker-0 was lost");
  status.mutable_stages(0)->set_worker_id(7);
  v1::WorkerView* worker = status.add_workers();
  worker->set_worker_id(7);
  worker->set_name("worker-0");
  const std::string report = StatusReport(status);
  EXPECT_THAT(report, HasSubstr("recovering"));
  EXPECT_THAT(report, HasSubstr("(worker-0 was lost)"));
  EXPECT_THAT(report, HasSubstr("    0  block   worker-0"));
}

// Its lines were as long as 160 columns.
TEST(ProgressTest, ReportFitsOn80ColumnsAndLeavesNothingOut) {
  v1::GetStatusResponse status = Running(16);
  status.set_state(v1::RUN_STATE_RECOVERING);
  status.set_reason("worker 3 (worker-0) was lost: its connection ended");
  status.set_smoothed_loss(2.5);
  status.set_valid_loss(2.5);
  status.set_last_checkpoint(600);
  status.set_left_out(3);
  status.set_standstill(
      "no update for 7 s: stage 1 (worker-0, pid 2) is silent for 3.2 s, its "
      "lease runs out in a moment");
  v1::WorkerView* worker = status.add_workers();
  worker->set_worker_id(1);
  worker->set_name("gimbal-demo-workers-0-0-x7kzp");
  worker->set_state("training");
  worker->set_metrics_address("10.244.1.117:9464");
  for (v1::StageView& stage : *status.mutable_stages()) {
    stage.set_worker_id(1);
    stage.set_weight_version(1234567);
    stage.set_layers("embedding, blocks 100-104, head");
    stage.set_activity("waits for forward 1234567 from stage 14");
    stage.set_restarts(3);
    worker->add_stages(stage.stage());
  }
  v1::Decision* decision = status.add_decisions();
  decision->set_what("basis refreshes every 10, 20, 40, 80 updates, by stage");
  decision->set_reason(
      "stage_aware: the longer the delay the more often, and "
      "all stages together no more than before");
  for (const size_t columns : {80, 120}) {
    const std::string report = StatusReport(status, columns);
    const std::vector<std::string> lines = absl::StrSplit(report, '\n');
    for (const std::string& line : lines) {
      EXPECT_LE(ColumnsOf(line), columns) << line;
    }
    for (const char* part :
         {"layers", "restarts", "embedding, blocks 100-104, head", " 0-15 ",
          "waits for forward 1234567 from stage 14", "10.244.1.117:9464",
          "no more than before", "runs out in a moment"}) {
      EXPECT_THAT(absl::StrReplaceAll(report, {{"\n    ", " "}}),
                  HasSubstr(part));
    }
    EXPECT_THAT(report, HasSubstr("checkpoint 600")) << "in one piece";
  }
}

}  // namespace
}  // namespace gimbal::cli
