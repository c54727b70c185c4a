// The coordinator and the workers of one run as child processes on loopback.
//
//   auto cluster = LocalCluster::Start(options);
//   while (!(*cluster)->coordinator_exit()) { (*cluster)->Supervise(now); ... }
//   (*cluster)->Finish(grace);
//
// Workers that die are started again with a growing pause; how often a stage
// may be restarted is the coordinator's decision. Not thread-safe; start it on
// the main thread (see child_process.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "coordinator/cli/child_process.h"

namespace gimbal::cli {

struct ClusterOptions {
  std::string bin_dir;  // holds gimbal-coordinator and gimbal-worker
  std::string run_dir;  // holds config.yaml and the folder logs
  int workers = 1;
  bool resume = false;
  std::string log_level = "info";
  // Told of every worker that ended and is started again.
  std::function<void(const std::string&)> notice;
};

class LocalCluster {
 public:
  // Starts the coordinator, waits until it serves, starts the workers. When
  // the coordinator gives up first, the error holds the end of its log and
  // keeps its kind: FAILED_PRECONDITION for exit code 2, INTERNAL otherwise.
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Start(
      const ClusterOptions& options);

  const std::string& address() const { return address_; }

  // Call about ten times a second. Starts dead workers again; an error, which
  // ends the run, when a worker cannot be kept alive, or was told that the run
  // is over (or that it is not wanted) and the coordinator goes on all the
  // same.
  absl::Status Supervise(base::SteadyTime now);

  std::optional<int> coordinator_exit() { return coordinator_->Poll(); }
  void SignalCoordinator(int signal) { coordinator_->Signal(signal); }

  // Ends everything: waits up to `grace` for the workers, then kills what is
  // left. Returns in bounded time.
  void Finish(base::Seconds grace);

  // Log lines of a process that tell why it ended.
  std::string LogTail(const std::string& process) const;

 private:
  struct Worker {
    std::optional<ChildProcess> process;
    base::SteadyTime started;
    base::SteadyTime restart_at;
    int short_lives = 0;  // ends in a row within kShortLife
    // By the coordinator's word, not to be restarted.
    std::optional<base::SteadyTime> ended;
  };

  explicit LocalCluster(const ClusterOptions& options) : options_(options) {}
  absl::Status StartCoordinator();
  absl::Status StartWorker(int index, base::SteadyTime now);
  absl::Status CheckEnd(int index, base::SteadyTime now);
  std::string LogPath(const std::string& process) const;

  ClusterOptions options_;
  std::string address_;
  std::optional<ChildProcess> coordinator_;
  std::vector<Worker> workers_;
};

// Folder of the running program, where its sibling programs are.
std::string ProgramFolder();

}  // namespace gimbal::cli
