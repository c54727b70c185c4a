// Effects of a run controller in memory: what it sent, decided and stored.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "coordinator/run/run_controller.h"

namespace gimbal::coordinator {

// Of `stages` stages on as many layers, 40 updates, an evaluation every 5 and a
// checkpoint every 10.
v1::RunConfig FakeConfig(int stages);
RunSetup FakeSetup(int stages, int workers);

class FakeEffects final : public RunEffects {
 public:
  void Send(int64_t worker, const v1::CoordinatorMessage& message) override;
  void Disconnect(int64_t worker, const absl::Status& reason) override;
  absl::StatusOr<int64_t> Next(Counter counter) override;
  using RunEffects::Record;
  void Record(const std::string& what, const std::string& reason,
              std::optional<int64_t> update) override;
  void StageRestarted(int stage, Loss loss) override;
  void SaveRecovery(int64_t number, const Recovery& recovery) override;
  void SaveInterruption(const Interruption& interruption) override;
  absl::Status SaveRefreshChange(const RefreshChange& change) override;
  absl::Status SaveLeftOut(const LeftOut& left_out,
                           int64_t plans_from) override;
  void CountNotFinite() override { ++not_finite; }
  absl::StatusOr<RunHistory> History() override;
  absl::Status DropCheckpointsAfter(int64_t last) override;
  absl::Status WriteRow(const MetricsRow& row) override;
  absl::Status FlushRows() override;
  absl::StatusOr<std::vector<MetricsRow>> Rows() override;
  absl::StatusOr<std::vector<MetricsRow>> KeepRows(int64_t last) override;
  bool HasCheckpoint(int64_t update) override;
  absl::Status CommitCheckpoint(const CheckpointContent& content) override;
  void GiveUpCheckpoint(int64_t update, const std::string& reason) override;
  void RemoveUnfinishedCheckpoints() override {}
  absl::StatusOr<int64_t> NewestCheckpoint() override;

  // Reason of the newest decision of this name; empty when there is none.
  std::string LastReason(const std::string& what) const;

  std::map<int64_t, std::vector<v1::CoordinatorMessage>> sent;  // by worker
  std::set<int64_t> disconnected;
  std::map<Counter, int64_t> counters;
  std::vector<std::string> decisions;
  std::map<std::string, int64_t> updates;  // of decisions that have one
  std::map<int, int> restarts;             // by stage
  std::map<int64_t, Recovery> recoveries;
  std::vector<Interruption> interruptions;
  std::vector<RefreshChange> refresh_changes;
  std::vector<LeftOut> left_out;
  int not_finite = 0;
  std::vector<MetricsRow> rows;
  std::function<void(const MetricsRow&)> on_row;
  size_t flushed = 0;  // of these; others do not outlive the coordinator
  std::set<int64_t> committed;
  std::set<int64_t> damaged;  // of these
  std::vector<int64_t> given_up;
  absl::Status commit_error;
  absl::Status disk_error;  // nothing can be read
};

}  // namespace gimbal::coordinator
