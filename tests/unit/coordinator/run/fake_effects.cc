#include "tests/unit/coordinator/run/fake_effects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "coordinator/planner/placement.h"

namespace gimbal::coordinator {

v1::RunConfig FakeConfig(int stages) {
  v1::RunConfig config;
  config.mutable_run()->set_name("demo");
  config.mutable_run()->set_steps(40);
  config.mutable_data()->set_valid("held-out");
  config.mutable_model()->set_layers(stages);
  config.mutable_model()->set_hidden(8);
  config.mutable_model()->set_heads(2);
  config.mutable_model()->set_context(8);
  config.mutable_model()->set_vocab(16);
  config.mutable_model()->set_mlp_ratio(4);
  config.mutable_batch()->set_microbatch(2);
  config.mutable_batch()->set_accumulate(1);
  config.mutable_pipeline()->set_stages(stages);
  config.mutable_pipeline()->set_schedule(v1::SCHEDULE_KIND_ASYNC_1F1B);
  config.mutable_optimizer()->set_name(v1::OPTIMIZER_NAME_ADAMW);
  config.mutable_optimizer()->set_lr(1e-3);
  config.mutable_optimizer()->mutable_schedule()->set_kind(
      v1::LR_SCHEDULE_KIND_CONSTANT);
  config.mutable_eval()->set_every(5);
  config.mutable_checkpoint()->set_every(10);
  config.mutable_cluster()->mutable_lease()->set_seconds(3);
  config.mutable_cluster()->set_restart_budget(100);
  config.mutable_cluster()->mutable_shrink_after()->set_seconds(30);
  config.mutable_cluster()->mutable_grace()->set_seconds(120);
  config.mutable_guards()->set_nan(v1::GUARD_POLICY_STOP);
  config.mutable_guards()->set_loss_spike_window(10);
  config.mutable_guards()->set_budget(4);
  return config;
}

RunSetup FakeSetup(int stages, int workers) {
  RunSetup setup;
  setup.config = FakeConfig(stages);
  setup.run_id = "demo-1";
  setup.run_dir = "/run";
  setup.checkpoint_root = "/run/checkpoints";
  setup.workers = workers;
  setup.plan = *PlanStages(setup.config);
  return setup;
}

void FakeEffects::Send(int64_t worker, const v1::CoordinatorMessage& message) {
  sent[worker].push_back(message);
}

void FakeEffects::Disconnect(int64_t worker, const absl::Status&) {
  disconnected.insert(worker);
}

absl::StatusOr<int64_t> FakeEffects::Next(Counter counter) {
  return ++counters[counter];
}

void FakeEffects::Record(const std::string& what, const std::string& reason,
                         std::optional<int64_t> update) {
  decisions.push_back(what + ": " + reason);
  if (update) updates[what] = *update;
}

std::string FakeEffects::LastReason(const std::string& what) const {
  const std::string prefix = what + ": ";
  std::string reason;
  for (const std::string& decision : decisions) {
    if (decision.starts_with(prefix)) reason = decision.substr(prefix.size());
  }
  return reason;
}

void FakeEffects::StageRestarted(int stage, Loss) { ++restarts[stage]; }

void FakeEffects::SaveRecovery(int64_t number, const Recovery& recovery) {
  recoveries[number] = recovery;
}

void FakeEffects::SaveInterruption(const Interruption& interruption) {
  interruptions.push_back(interruption);
}

absl::Status FakeEffects::SaveRefreshChange(const RefreshChange& change) {
  refresh_changes.push_back(change);
  return absl::OkStatus();
}

absl::Status FakeEffects::SaveLeftOut(const LeftOut& more, int64_t plans_from) {
  left_out.push_back(more);
  std::erase_if(refresh_changes, [plans_from](const RefreshChange& change) {
    return !change.asked && change.from >= plans_from;
  });
  return absl::OkStatus();
}

absl::Status FakeEffects::DropCheckpointsAfter(int64_t last) {
  committed.erase(committed.upper_bound(last), committed.end());
  return absl::OkStatus();
}

absl::StatusOr<RunHistory> FakeEffects::History() {
  RunHistory history{.interruptions = interruptions,
                     .refresh_changes = refresh_changes,
                     .left_out = left_out,
                     .generation = counters[Counter::kGeneration]};
  if (!committed.empty()) history.newest_committed = *committed.rbegin();
  for (const auto& [stage, count] : restarts) {
    history.restarts.resize(stage);
    history.restarts.push_back(count);
  }
  for (const auto& [number, recovery] : recoveries) {
    history.recoveries.push_back(recovery);
  }
  return history;
}

absl::Status FakeEffects::WriteRow(const MetricsRow& row) {
  EXPECT_EQ(row.step, static_cast<int64_t>(rows.size()) + 1);
  if (!rows.empty()) {
    EXPECT_GE(row.seconds, rows.back().seconds);
  }
  if (on_row) on_row(row);
  rows.push_back(row);
  return absl::OkStatus();
}

absl::Status FakeEffects::FlushRows() {
  flushed = rows.size();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<MetricsRow>> FakeEffects::Rows() { return rows; }

absl::StatusOr<std::vector<MetricsRow>> FakeEffects::KeepRows(int64_t last) {
  if (static_cast<int64_t>(rows.size()) < last) {
    return absl::DataLossError("metrics.jsonl: a gap");
  }
  rows.resize(last);
  flushed = rows.size();
  return rows;
}

bool FakeEffects::HasCheckpoint(int64_t update) {
  return disk_error.ok() && committed.contains(update);
}

absl::Status FakeEffects::CommitCheckpoint(const CheckpointContent& content) {
  EXPECT_LE(content.update, static_cast<int64_t>(rows.size()));
  flushed = rows.size();
  if (!commit_error.ok()) return commit_error;
  committed.insert(content.update);
  return absl::OkStatus();
}

void FakeEffects::GiveUpCheckpoint(int64_t update, const std::string&) {
  given_up.push_back(update);
}

absl::StatusOr<int64_t> FakeEffects::NewestCheckpoint() {
  if (!disk_error.ok()) return disk_error;
  int64_t newest = 0;
  for (int64_t update : committed) {
    if (!damaged.contains(update)) newest = update;
  }
  return newest;
}

}  // namespace gimbal::coordinator
