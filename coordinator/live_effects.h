// The run controller's effects on the real world: sessions, files, metrics.
// Not thread-safe; runs on the loop.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "coordinator/checkpoint/catalogue.h"
#include "coordinator/metrics.h"
#include "coordinator/page/loss_curve.h"
#include "coordinator/run/run_controller.h"
#include "coordinator/run/run_effects.h"
#include "coordinator/service/session_hub.h"
#include "coordinator/store/run_folder.h"
#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::coordinator {

class LiveEffects final : public RunEffects {
 public:
  // All must outlive this.
  LiveEffects(RunFolder& folder, const Catalogue& catalogue,
              SessionHub& sessions, CoordinatorMetrics& metrics, int layers,
              std::vector<v1::StagePlacement> plan, const base::Clock& clock);

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
  void CountNotFinite() override;
  absl::StatusOr<RunHistory> History() override;
  absl::Status DropCheckpointsAfter(int64_t last) override;
  absl::Status WriteRow(const MetricsRow& row) override;
  absl::Status FlushRows() override;
  absl::StatusOr<std::vector<MetricsRow>> Rows() override;
  absl::StatusOr<std::vector<MetricsRow>> KeepRows(int64_t last) override;
  bool HasCheckpoint(int64_t update) override;
  absl::Status CommitCheckpoint(const CheckpointContent& content) override;
  void GiveUpCheckpoint(int64_t update, const std::string& reason) override;
  void RemoveUnfinishedCheckpoints() override;
  absl::StatusOr<int64_t> NewestCheckpoint() override;

  // For the status page. Thread-safe.
  const LossCurve& curve() const { return curve_; }
  // The newest commits, newest last, for GetStatus.
  const std::deque<v1::CheckpointView>& checkpoints() const {
    return checkpoints_;
  }
  // The newest decisions, newest last, for GetStatus.
  const std::deque<StoredDecision>& decisions() const { return decisions_; }

 private:
  void RestoreMetrics();
  void RestoreEvents();
  // In the store, so that its metric goes on in the next life.
  void Count(const std::string& event);
  void ShowRecovery(const Recovery& recovery);
  void ShowCheckpoint(int64_t update);
  void NoteCheckpoint(int64_t update, std::optional<double> unix_seconds);

  RunFolder& folder_;
  const Catalogue& catalogue_;
  SessionHub& sessions_;
  CoordinatorMetrics& metrics_;
  const int layers_;
  const std::vector<v1::StagePlacement> plan_;
  const base::Clock& clock_;
  // Of this coordinator's life; the keys of links are made of it.
  const std::string secret_;
  int64_t generation_ = 0;  // newest one given; 0: none in this life
  std::deque<StoredDecision> decisions_;
  std::deque<v1::CheckpointView> checkpoints_;
  LossCurve curve_;
};

}  // namespace gimbal::coordinator
