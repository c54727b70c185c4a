#include "coordinator/store/memory_run_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gimbal::coordinator {

absl::StatusOr<std::optional<RunIdentity>> MemoryRunStore::Identity() {
  return identity_;
}

absl::Status MemoryRunStore::SetIdentity(const RunIdentity& identity) {
  if (identity_.has_value()) {
    return absl::AlreadyExistsError(
        absl::StrCat("the store holds run ", identity_->run_id));
  }
  identity_ = identity;
  return absl::OkStatus();
}

absl::Status MemoryRunStore::ChangeLayout(const LayoutChange& change) {
  if (!identity_.has_value()) {
    return absl::NotFoundError("the store holds no run");
  }
  identity_->config_digest = change.config_digest;
  identity_->config_yaml = change.config_yaml;
  refresh_changes_ = change.refresh_changes;
  decisions_.push_back(change.decision);
  ++counters_["generation"];
  return absl::OkStatus();
}

absl::StatusOr<int64_t> MemoryRunStore::Next(const std::string& counter) {
  return ++counters_[counter];
}

absl::StatusOr<int64_t> MemoryRunStore::Count(const std::string& counter) {
  const auto it = counters_.find(counter);
  return it == counters_.end() ? 0 : it->second;
}

absl::Status MemoryRunStore::AddCheckpoint(int64_t update, double) {
  checkpoints_.insert(update);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> MemoryRunStore::Checkpoints() {
  return std::vector<int64_t>(checkpoints_.begin(), checkpoints_.end());
}

absl::Status MemoryRunStore::SaveRecovery(int64_t number,
                                          const Recovery& recovery) {
  recoveries_[number] = recovery;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Recovery>> MemoryRunStore::Recoveries() {
  std::vector<Recovery> recoveries;
  for (const auto& [number, recovery] : recoveries_) {
    recoveries.push_back(recovery);
  }
  return recoveries;
}

absl::Status MemoryRunStore::AddInterruption(const Interruption& interruption) {
  interruptions_.push_back(interruption);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Interruption>> MemoryRunStore::Interruptions() {
  return interruptions_;
}

absl::Status MemoryRunStore::AddRefreshChange(const RefreshChange& change) {
  refresh_changes_.push_back(change);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RefreshChange>> MemoryRunStore::RefreshChanges() {
  return refresh_changes_;
}

absl::Status MemoryRunStore::ForgetCheckpointsAfter(int64_t last) {
  checkpoints_.erase(checkpoints_.upper_bound(last), checkpoints_.end());
  return absl::OkStatus();
}

absl::Status MemoryRunStore::AddLeftOut(const LeftOut& left_out,
                                        int64_t plans_from) {
  left_outs_.push_back(left_out);
  std::erase_if(refresh_changes_, [plans_from](const RefreshChange& change) {
    return !change.asked && change.from >= plans_from;
  });
  return absl::OkStatus();
}

absl::StatusOr<std::vector<LeftOut>> MemoryRunStore::LeftOuts() {
  return left_outs_;
}

absl::Status MemoryRunStore::AddDecision(const StoredDecision& decision) {
  decisions_.push_back(decision);
  return absl::OkStatus();
}

absl::StatusOr<bool> MemoryRunStore::Holds(const StoredDecision& decision) {
  return std::ranges::any_of(decisions_, [&](const StoredDecision& held) {
    return held.unix_seconds == decision.unix_seconds &&
           held.what == decision.what && held.reason == decision.reason;
  });
}

absl::StatusOr<std::vector<StoredDecision>> MemoryRunStore::Decisions(
    int limit) {
  const size_t count = std::min(decisions_.size(), static_cast<size_t>(limit));
  return std::vector<StoredDecision>(decisions_.end() - count,
                                     decisions_.end());
}

absl::StatusOr<int64_t> MemoryRunStore::DecisionCount() {
  return static_cast<int64_t>(decisions_.size());
}

absl::StatusOr<std::string> MemoryRunStore::LastReason(
    const std::string& what) {
  for (auto it = decisions_.rbegin(); it != decisions_.rend(); ++it) {
    if (it->what == what) return it->reason;
  }
  return std::string();
}

}  // namespace gimbal::coordinator
