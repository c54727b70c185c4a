// Writes snapshots behind training: the executor's thread copies, this one
// writes.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
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
  // `root`: the folder of all checkpoints. `may_write` is asked before each
  // file counts, and `done` called after the last one, both on the writer's
  // thread; afterwards `signal` is notified.
  SnapshotWriter(std::string root, Signal& signal,
                 std::function<void(const SnapshotResult&)> done,
                 std::function<absl::Status()> may_write = {});
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

  const std::string root_;
  Signal& signal_;
  const std::function<void(const SnapshotResult&)> done_;
  const std::function<absl::Status()> may_write_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::map<int, std::unique_ptr<StageSnapshot>> snapshots_;  // by stage
  std::map<int, bool> writing_;                              // by stage
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace gimbal::worker
