#include "coordinator/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <set>

#include "common/config/run_config_io.h"
#include "tests/support/status_matchers.h"

namespace gimbal::coordinator {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kMethods[] = {"Register", "Session", "GetStatus",
                                    "Command",  "Put",     "Get"};

class MetricsTest : public ::testing::Test {
 protected:
  MetricsTest() {
    auto config = config::ParseRunConfig(
        "run: {steps: 100}\n"
        "data: {train: corpus}\n"
        "model: {layers: 3, hidden: 8, heads: 2, context: 8}\n"
        "pipeline: {stages: 3}\n"
        "cluster: {restart_budget: 2}\n",
        "config.yaml", {});
    EXPECT_THAT(config, test_support::IsOk());
    metrics_.emplace(registry_, "demo", *config);
  }

  std::string Text() const {
    return prometheus::TextSerializer().Serialize(registry_.Collect());
  }
  std::set<std::string> Series() const {
    std::set<std::string> series;
    std::istringstream lines(Text());
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with('#')) series.insert(line.substr(0, line.find(' ')));
    }
    return series;
  }
  v1::GetStatusResponse Status() const {
    v1::GetStatusResponse status;
    status.set_state(v1::RUN_STATE_RUNNING);
    for (int i = 0; i < 3; ++i) {
      v1::StageView& stage = *status.add_stages();
      stage.set_stage(i);
      stage.set_delay_expected(2 - i);
      v1::WorkerView& worker = *status.add_workers();
      worker.set_state("training");
      worker.add_stages(i);
      worker.set_heartbeat_age_seconds(0.25 * i);
    }
    return status;
  }

  prometheus::Registry registry_;
  std::optional<CoordinatorMetrics> metrics_;
};

TEST_F(MetricsTest, WhatIsNotKnownYetIsLeftOut) {
  EXPECT_THAT(Text(), Not(HasSubstr("gimbal_train_loss{")));
  EXPECT_THAT(Text(), Not(HasSubstr("gimbal_checkpoint_bytes{")));
  metrics_->OnRow({.step = 7, .loss = 2.5, .staleness = {2, 1, 0}});
  EXPECT_THAT(Text(), HasSubstr("gimbal_train_loss{run=\"demo\"} 2.5"));
  EXPECT_THAT(Text(), HasSubstr("gimbal_train_update{run=\"demo\"} 7"));
}

TEST_F(MetricsTest, WhateverHappensAddsNoSeries) {
  metrics_->OnRow({.step = 1, .staleness = {0, 0, 0}});
  metrics_->OnStatus(Status());
  const std::set<std::string> before = Series();
  for (int stage = 0; stage < 3; ++stage) {
    for (const Loss loss : {Loss::kConnection, Loss::kLease, Loss::kLink}) {
      metrics_->OnRestart(stage, loss);
    }
    metrics_->OnRecovery(stage, 0.4);
  }
  metrics_->OnLeftOut({.first = 3, .last = 4, .kind = "nan"});
  metrics_->OnLeftOut({.first = 5, .last = 5, .kind = "loss_spike"});
  metrics_->OnNotFinite();
  metrics_->OnRefreshChange();
  metrics_->OnDecision();
  metrics_->OnCheckpointFailure();
  metrics_->OnCall("Session", absl::OkStatus(), base::Seconds(0.001));
  metrics_->OnCall("Session", absl::AbortedError(""), base::Seconds(0.001));
  metrics_->OnCall("Register", absl::InternalError(""), base::Seconds(1));
  for (const char* method : kMethods) {
    for (int code = 0; code <= 16; ++code) {
      metrics_->OnCall(method, absl::Status(absl::StatusCode(code), ""),
                       base::Seconds(0.1));
    }
  }
  metrics_->OnCall("Unheard", absl::OkStatus(), base::Seconds(1));
  metrics_->OnStatus(Status());
  EXPECT_EQ(Series(), before);
  const std::string text = Text();
  for (const char* line :
       {"gimbal_stage_restarts_total{reason=\"lease\",run=\"demo\",stage=\"1\"}"
        " 1",
        "gimbal_stage_restarts_left{run=\"demo\",stage=\"1\"} 0",
        "gimbal_train_nonfinite_total{run=\"demo\"} 1",
        "gimbal_train_skipped_updates_total{reason=\"nan\",run=\"demo\"} 2",
        "gimbal_rpc_errors_total{code=\"aborted\",method=\"Session\",run="
        "\"demo\"} 2",
        "gimbal_rpc_errors_total{code=\"data_loss\",method=\"Put\",run="
        "\"demo\"} 1",
        "gimbal_rpc_seconds_count{method=\"Session\",run=\"demo\"} 19",
        "gimbal_rpc_seconds_count{method=\"Register\",run=\"demo\"} 18",
        "gimbal_rpc_seconds_count{method=\"GetStatus\",run=\"demo\"} 17",
        "gimbal_rpc_seconds_count{method=\"Command\",run=\"demo\"} 17",
        "gimbal_rpc_seconds_count{method=\"Put\",run=\"demo\"} 17",
        "gimbal_rpc_seconds_count{method=\"Get\",run=\"demo\"} 17",
        "gimbal_stage_recovery_seconds_count{run=\"demo\",stage=\"2\"} 1",
        "gimbal_stage_delay_updates{run=\"demo\",stage=\"0\"} 2",
        "gimbal_stage_heartbeat_age_seconds{run=\"demo\",stage=\"2\"} 0.5",
        "gimbal_run_state{run=\"demo\",state=\"running\"} 1",
        "gimbal_run_state{run=\"demo\",state=\"failed\"} 0",
        "gimbal_workers{run=\"demo\",state=\"training\"} 3"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(MetricsTest, RestartsOfEarlierProcessesUseUpNoBudget) {
  metrics_->RestoreRestarts(1, Loss::kLease, 5);
  metrics_->OnRestart(1, Loss::kLease);
  EXPECT_THAT(
      Text(),
      HasSubstr("gimbal_stage_restarts_total{reason=\"lease\",run=\"demo\","
                "stage=\"1\"} 6\n"));
  EXPECT_THAT(
      Text(),
      HasSubstr("gimbal_stage_restarts_left{run=\"demo\",stage=\"1\"} 1\n"));
}

TEST_F(MetricsTest, EventsOfEarlierProcessesCount) {
  metrics_->RestoreEvents({.decisions = 40,
                           .refresh_changes = 3,
                           .not_finite = 2,
                           .checkpoint_failures = 1});
  metrics_->OnDecision();
  for (const char* line :
       {"gimbal_decisions_total{run=\"demo\"} 41\n",
        "gimbal_refresh_plan_changes_total{run=\"demo\"} 3\n",
        "gimbal_train_nonfinite_total{run=\"demo\"} 2\n",
        "gimbal_checkpoint_failures_total{run=\"demo\"} 1\n"}) {
    EXPECT_THAT(Text(), HasSubstr(line));
  }
}

// They once ran backwards when a coordinator took up a run.
TEST_F(MetricsTest, WhatIsDoneAgainIsNoProgress) {
  v1::GetStatusResponse status = Status();
  status.set_update(35);
  status.set_loss(2.25);
  metrics_->OnStatus(status);
  metrics_->OnRow({.step = 31, .loss = 2.5, .staleness = {2, 1, 0}});
  EXPECT_THAT(Text(), HasSubstr("gimbal_train_update{run=\"demo\"} 35\n"));
  EXPECT_THAT(Text(), HasSubstr("gimbal_train_loss{run=\"demo\"} 2.25\n"));
  // Every stage has gone back.
  status.set_update(30);
  metrics_->OnStatus(status);
  metrics_->OnRow({.step = 31, .loss = 2.5, .staleness = {2, 1, 0}});
  EXPECT_THAT(Text(), HasSubstr("gimbal_train_update{run=\"demo\"} 31\n"));
  EXPECT_THAT(Text(), HasSubstr("gimbal_train_loss{run=\"demo\"} 2.5\n"));
}

// It once was 0 while a stage had no worker, as if that were in best health.
TEST_F(MetricsTest, TheAgeOfTheLastHeartbeatGoesOnWhileAStageHasNoWorker) {
  v1::GetStatusResponse status = Status();
  status.clear_workers();
  status.set_unix_seconds(100);
  metrics_->OnStatus(status);
  constexpr char kAge[] =
      "gimbal_stage_heartbeat_age_seconds{run=\"demo\",stage=\"2\"}";
  EXPECT_THAT(Text(), Not(HasSubstr(kAge))) << "nobody has had it yet";
  *status.mutable_workers() = Status().workers();
  metrics_->OnStatus(status);
  EXPECT_THAT(Text(), HasSubstr(std::string(kAge) + " 0.5\n"));
  status.mutable_workers()->RemoveLast();
  status.set_unix_seconds(107);
  metrics_->OnStatus(status);
  EXPECT_THAT(Text(), HasSubstr(std::string(kAge) + " 7.5\n"));
}

TEST_F(MetricsTest, ACheckpointThatIsFoundHasNoDuration) {
  metrics_->OnCheckpoint({.update = 20, .bytes = 10, .unix_seconds = 5});
  EXPECT_THAT(Text(), HasSubstr("gimbal_checkpoint_update{run=\"demo\"} 20"));
  EXPECT_THAT(Text(), HasSubstr("duration_seconds_count{run=\"demo\"} 0"));
  metrics_->OnCheckpoint({.update = 40, .seconds = 0.2});
  EXPECT_THAT(Text(), HasSubstr("duration_seconds_count{run=\"demo\"} 1"));
}

}  // namespace
}  // namespace gimbal::coordinator
