// Keeps snapshots in this worker's memory and in that of another one, behind
// training: the executor's thread copies, this one sends.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "worker/checkpoint/snapshot_store.h"
#include "worker/checkpoint/stage_snapshot.h"
#include "worker/transport/signal.h"

namespace gimbal::worker {

// Worker that keeps a stage's snapshots besides its own.
struct Backup {
  int64_t worker = 0;   // id; 0: there is none
  std::string address;  // of its SnapshotService
  friend bool operator==(const Backup&, const Backup&) = default;
};

// Puts a snapshot into another worker's store; ends early when told to stop.
using SendSnapshot = std::function<absl::Status(
    const std::string& address, const std::string& run, int64_t generation,
    int stage, const StageSnapshot& snapshot, std::stop_token stop)>;

struct KeepResult {
  int stage = 0;
  int64_t update = 0;
  absl::Status status;  // not OK: nobody keeps it
  int64_t backup = 0;   // worker that has it, too
  int64_t bytes = 0;
  double seconds = 0;  // from the copy until the backup had it
};

class SnapshotKeeper {
 public:
  // `send` and `done` run on the keeper's thread; after `done` the signal is
  // notified. `store` and `signal` must outlive the keeper.
  SnapshotKeeper(std::string run, SnapshotStore& store, SendSnapshot send,
                 Signal& signal, std::function<void(const KeepResult&)> done);
  // Gives up what has not been sent.
  ~SnapshotKeeper();

  // By stage, from `generation` on. What is being sent to a backup that is none
  // any more goes to its successor, and so does what the store has of a stage
  // that had another one. Thread-safe.
  void SetBackups(int64_t generation, std::map<int, Backup> backups);
  // Sends a snapshot that is in the store, and of use under `generation`, to
  // the stage's backup.
  void SendAgain(int64_t generation, int stage, int64_t update);

  // Copies the stage's state, made under `generation`, and has it kept. False,
  // and nothing done, while this stage's last snapshot is still being sent.
  bool Take(int stage, int64_t update, int64_t generation,
            const StageState& state);

 private:
  struct Job {
    int stage = 0;
    int64_t generation = 0;
    base::SteadyTime begin;
    std::shared_ptr<const StageSnapshot> snapshot;
    bool again = false;
  };
  void Loop();
  void SendAgainLocked(int64_t generation, int stage, int64_t update);
  KeepResult Keep(const Job& job);
  absl::Status SendToBackup(const Job& job, Backup& backup);

  const std::string run_;
  SnapshotStore& store_;
  const SendSnapshot send_;
  Signal& signal_;
  const std::function<void(const KeepResult&)> done_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Backup> backups_;
  std::deque<Job> jobs_;
  std::map<int, int64_t> sending_;  // update, by stage
  Backup in_use_;                   // is being sent to
  std::stop_source stop_;           // ends that
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace gimbal::worker
