#include "worker/checkpoint/snapshot_keeper.h"

#include <chrono>
#include <utility>

#include "common/base/status_macros.h"

namespace gimbal::worker {
namespace {

// A new backup may not know of its assignment yet.
constexpr int kAttempts = 6;
constexpr std::chrono::milliseconds kPause{40};

}  // namespace

SnapshotKeeper::SnapshotKeeper(std::string run, SnapshotStore& store,
                               SendSnapshot send, Signal& signal,
                               std::function<void(const KeepResult&)> done)
    : run_(std::move(run)),
      store_(store),
      send_(std::move(send)),
      signal_(signal),
      done_(std::move(done)) {
  thread_ = std::thread([this] { Loop(); });
}

SnapshotKeeper::~SnapshotKeeper() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    stop_.request_stop();
  }
  changed_.notify_all();
  thread_.join();
}

void SnapshotKeeper::SetBackups(int64_t generation,
                                std::map<int, Backup> backups) {
  std::lock_guard lock(mutex_);
  const std::map<int, Backup> before = std::exchange(backups_, backups);
  for (const auto& [stage, update] : store_.Keys()) {
    const auto old = before.find(stage);
    const auto now = backups_.find(stage);
    if (old == before.end() || now == backups_.end() ||
        old->second == now->second) {
      continue;
    }
    const auto sending = sending_.find(stage);
    if (sending != sending_.end() && sending->second == update) continue;
    SendAgainLocked(generation, stage, update);
  }
  if (in_use_.worker == 0) return;
  for (const auto& [stage, backup] : backups_) {
    if (backup == in_use_) return;
  }
  stop_.request_stop();
}

void SnapshotKeeper::SendAgain(int64_t generation, int stage, int64_t update) {
  std::lock_guard lock(mutex_);
  SendAgainLocked(generation, stage, update);
}

void SnapshotKeeper::SendAgainLocked(int64_t generation, int stage,
                                     int64_t update) {
  auto snapshot = store_.Find(run_, stage, update);
  if (snapshot == nullptr) return;
  jobs_.push_back({.stage = stage,
                   .generation = generation,
                   .begin = base::Clock::Real().Now(),
                   .snapshot = std::move(snapshot),
                   .again = true});
  changed_.notify_all();
}

bool SnapshotKeeper::Take(int stage, int64_t update, int64_t generation,
                          const StageState& state) {
  {
    std::lock_guard lock(mutex_);
    if (!sending_.emplace(stage, update).second) return false;
  }
  const auto begin = base::Clock::Real().Now();
  auto snapshot = std::make_shared<StageSnapshot>();
  snapshot->Copy(update, state);
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back({.stage = stage,
                     .generation = generation,
                     .begin = begin,
                     .snapshot = std::move(snapshot)});
  }
  changed_.notify_all();
  return true;
}

void SnapshotKeeper::Loop() {
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    const KeepResult result = Keep(job);
    {
      std::lock_guard lock(mutex_);
      if (!job.again) sending_.erase(job.stage);
      if (stopping_) return;
    }
    // A copy that was there before counts without the new one.
    if (result.status.ok() || !job.again) done_(result);
    signal_.Notify();
  }
}

KeepResult SnapshotKeeper::Keep(const Job& job) {
  KeepResult result{.stage = job.stage,
                    .update = job.snapshot->update(),
                    .bytes = job.snapshot->bytes()};
  Backup backup;
  if (!job.again) {
    result.status = store_.Put(run_, job.generation, job.stage, job.snapshot);
  }
  if (result.status.ok()) result.status = SendToBackup(job, backup);
  // One copy alone would never count, only take memory.
  if (!result.status.ok() && !job.again) {
    store_.Drop(result.stage, result.update);
  }
  result.backup = backup.worker;
  result.seconds = base::Seconds(base::Clock::Real().Now() - job.begin).count();
  return result;
}

absl::Status SnapshotKeeper::SendToBackup(const Job& job, Backup& backup) {
  std::unique_lock lock(mutex_);
  for (int attempt = 1;; ++attempt) {
    if (stopping_) return absl::CancelledError("the assignment was replaced");
    backup = in_use_ = backups_[job.stage];
    if (backup.worker == 0) return absl::OkStatus();
    stop_ = std::stop_source();
    const std::stop_token stop = stop_.get_token();
    lock.unlock();
    const absl::Status sent = send_(backup.address, run_, job.generation,
                                    job.stage, *job.snapshot, stop);
    lock.lock();
    in_use_ = {};
    if (sent.ok()) return sent;
    if (backup != backups_[job.stage]) continue;
    if (!job.again || attempt == kAttempts) return sent;
    changed_.wait_for(lock, attempt * kPause, [&] { return stopping_; });
  }
}

}  // namespace gimbal::worker
