// Writes snapshots behind training: the executor's thread copies, this one
// writes.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "worker/checkpoint/stage_snapshot.h"
#include "worker/transport/signal.h"

namespace gimbal::worker {

struct SnapshotResult {
  int stage = 0;
  int64_t update = 0;
  absl::Status status;
  std::vector<SnapshotFile> files;  // when status is OK
  double seconds = 0;               // from the copy to the last byte
};

class SnapshotWriter {
 public:
  // `store` is used, and `done` called after a stage's last file, on the
  // writer's thread; afterwards `signal` is notified. `store` and `signal` must
  // outlive the writer.
  SnapshotWriter(CheckpointStore& store, Signal& signal,
                 std::function<void(const SnapshotResult&)> done);
  // Finishes what has been taken.
  ~SnapshotWriter();

  // Copies the stage's state and has it written. False, and nothing done, while
  // this stage's last snapshot is still being written.
  bool Take(int stage, int64_t update, const StageState& state);
  // Waits until everything taken has been written.
  void Flush();

 private:
  struct Job {
    int stage = 0;
    int64_t update = 0;
    base::SteadyTime begin;
    StageSnapshot* snapshot = nullptr;
  };
  void Loop();
  SnapshotResult Write(const Job& job) const;

  CheckpointStore& store_;
  Signal& signal_;
  const std::function<void(const SnapshotResult&)> done_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::map<int, std::unique_ptr<StageSnapshot>> snapshots_;  // by stage
  std::map<int, bool> writing_;                              // by stage
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace gimbal::worker
