// The store of tests, and the specification of the SQLite one.
#pragma once

#include <map>
#include <set>

#include "coordinator/store/run_store.h"

namespace gimbal::coordinator {

class MemoryRunStore final : public RunStore {
 public:
  absl::StatusOr<std::optional<RunIdentity>> Identity() override;
  absl::Status SetIdentity(const RunIdentity& identity) override;
  absl::Status ChangeLayout(const LayoutChange& change) override;
  absl::StatusOr<int64_t> Next(const std::string& counter) override;
  absl::StatusOr<int64_t> Count(const std::string& counter) override;
  absl::Status AddCheckpoint(int64_t update, double unix_seconds) override;
  absl::StatusOr<std::vector<int64_t>> Checkpoints() override;
  absl::Status SaveRecovery(int64_t number, const Recovery& recovery) override;
  absl::StatusOr<std::vector<Recovery>> Recoveries() override;
  absl::Status AddInterruption(const Interruption& interruption) override;
  absl::StatusOr<std::vector<Interruption>> Interruptions() override;
  absl::Status AddRefreshChange(const RefreshChange& change) override;
  absl::StatusOr<std::vector<RefreshChange>> RefreshChanges() override;
  absl::Status ForgetCheckpointsAfter(int64_t last) override;
  absl::Status AddLeftOut(const LeftOut& left_out, int64_t plans_from) override;
  absl::StatusOr<std::vector<LeftOut>> LeftOuts() override;
  absl::Status AddDecision(const StoredDecision& decision) override;
  absl::StatusOr<bool> Holds(const StoredDecision& decision) override;
  absl::StatusOr<std::vector<StoredDecision>> Decisions(int limit) override;
  absl::StatusOr<int64_t> DecisionCount() override;
  absl::StatusOr<std::string> LastReason(const std::string& what) override;

 private:
  std::optional<RunIdentity> identity_;
  std::map<std::string, int64_t> counters_;
  std::set<int64_t> checkpoints_;
  std::map<int64_t, Recovery> recoveries_;  // by number
  std::vector<Interruption> interruptions_;
  std::vector<RefreshChange> refresh_changes_;
  std::vector<LeftOut> left_outs_;
  std::vector<StoredDecision> decisions_;
};

}  // namespace gimbal::coordinator
