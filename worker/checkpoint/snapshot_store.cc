#include "worker/checkpoint/snapshot_store.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace gimbal::worker {

void SnapshotStore::Renew() {
  std::lock_guard lock(mutex_);
  confirmed_ = false;
}

void SnapshotStore::Confirm(int64_t generation) {
  std::lock_guard lock(mutex_);
  confirmed_ = true;
  generation_ = generation;
}

void SnapshotStore::Begin(const std::string& run, int64_t generation,
                          int64_t since, int64_t start) {
  std::lock_guard lock(mutex_);
  if (run != run_ || !confirmed_) {
    snapshots_.clear();
    generation_ = 0;
  }
  run_ = run;
  confirmed_ = true;
  since_ = since;
  const int64_t known = std::exchange(generation_, generation);
  if (since <= known) return;
  std::erase_if(snapshots_, [start](const auto& kept) {
    return kept.first.second > start;
  });
}

absl::Status SnapshotStore::Admits(const std::string& run,
                                   int64_t generation) const {
  std::lock_guard lock(mutex_);
  return AdmitsLocked(run, generation);
}

absl::Status SnapshotStore::AdmitsLocked(const std::string& run,
                                         int64_t generation) const {
  if (run != run_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a snapshot of run '", run, "', this worker is in run '", run_, "'"));
  }
  if (generation < since_) {
    return absl::FailedPreconditionError(
        absl::StrCat("a snapshot of generation ", generation,
                     "; every stage started again under ", since_));
  }
  return absl::OkStatus();
}

absl::Status SnapshotStore::Put(const std::string& run, int64_t generation,
                                int stage,
                                std::shared_ptr<const StageSnapshot> snapshot) {
  std::lock_guard lock(mutex_);
  GIMBAL_RETURN_IF_ERROR(AdmitsLocked(run, generation));
  const Key key(stage, snapshot->update());
  snapshots_[key] = std::move(snapshot);
  return absl::OkStatus();
}

std::shared_ptr<const StageSnapshot> SnapshotStore::Find(const std::string& run,
                                                         int stage,
                                                         int64_t update) const {
  std::lock_guard lock(mutex_);
  const auto found = snapshots_.find({stage, update});
  return run != run_ || found == snapshots_.end() ? nullptr : found->second;
}

void SnapshotStore::DropBefore(int64_t update) {
  std::lock_guard lock(mutex_);
  std::erase_if(snapshots_, [update](const auto& kept) {
    return kept.first.second < update;
  });
}

void SnapshotStore::DropAt(int64_t update) {
  std::lock_guard lock(mutex_);
  std::erase_if(snapshots_, [update](const auto& kept) {
    return kept.first.second == update;
  });
}

void SnapshotStore::Drop(int stage, int64_t update) {
  std::lock_guard lock(mutex_);
  snapshots_.erase({stage, update});
}

std::vector<SnapshotStore::Key> SnapshotStore::Keys() const {
  std::lock_guard lock(mutex_);
  std::vector<Key> keys;
  for (const auto& [key, snapshot] : snapshots_) keys.push_back(key);
  return keys;
}

int64_t SnapshotStore::bytes() const {
  std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (const auto& [key, snapshot] : snapshots_) bytes += snapshot->bytes();
  return bytes;
}

}  // namespace gimbal::worker
