#include "worker/checkpoint/snapshot_writer.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"

namespace gimbal::worker {

SnapshotWriter::SnapshotWriter(CheckpointStore& store, Signal& signal,
                               std::function<void(const SnapshotResult&)> done)
    : store_(store), signal_(signal), done_(std::move(done)) {
  thread_ = std::thread([this] { Loop(); });
}

SnapshotWriter::~SnapshotWriter() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool SnapshotWriter::Take(int stage, int64_t update, const StageState& state) {
  StageSnapshot* snapshot = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (writing_[stage]) return false;
    writing_[stage] = true;
    std::unique_ptr<StageSnapshot>& owned = snapshots_[stage];
    if (owned == nullptr) owned = std::make_unique<StageSnapshot>();
    snapshot = owned.get();
  }
  const auto begin = base::Clock::Real().Now();
  snapshot->Copy(update, state);
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back({stage, update, begin, snapshot});
  }
  changed_.notify_all();
  return true;
}

void SnapshotWriter::Flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return std::none_of(writing_.begin(), writing_.end(),
                        [](const auto& entry) { return entry.second; });
  });
}

void SnapshotWriter::Loop() {
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = jobs_.front();
      jobs_.pop_front();
    }
    done_(Write(job));
    {
      std::lock_guard lock(mutex_);
      writing_[job.stage] = false;
    }
    changed_.notify_all();
    signal_.Notify();
  }
}

SnapshotResult SnapshotWriter::Write(const Job& job) const {
  SnapshotResult result{.stage = job.stage, .update = job.update};
  auto files = job.snapshot->Write(store_);
  result.status = files.status();
  if (files.ok()) result.files = std::move(files).value();
  result.seconds = base::Seconds(base::Clock::Real().Now() - job.begin).count();
  return result;
}

}  // namespace gimbal::worker
