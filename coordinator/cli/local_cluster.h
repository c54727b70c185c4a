// The coordinator and the workers of one run as child processes on loopback.
//
//   auto cluster = LocalCluster::Start(options);
//   while (!(*cluster)->coordinator_exit()) {
//     (*cluster)->Supervise(now);
//     (*cluster)->NoteStatus(status, now);  // whenever there is one,
//     (*cluster)->NoteNoAnswer(now);        // and when there is none
//   }
//   (*cluster)->Finish(grace);
//
// Processes that die are started again with a growing pause; a worker that
// hangs, so that the coordinator has given it up, is killed first, and so is a
// coordinator that does not answer. A later life of the coordinator that cannot
// start (its disk is full, its port taken) is tried again for a minute. How
// often a stage may be restarted is the coordinator's decision. Not
// thread-safe; start it on the main thread (see child_process.h).
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/rpc/credentials.h"
#include "coordinator/cli/child_process.h"
#include "gimbal/v1/admin_service.pb.h"

namespace gimbal::cli {

struct ClusterOptions {
  std::string bin_dir;  // holds gimbal-coordinator and gimbal-worker
  std::string run_dir;  // holds the folder logs
  std::string config;   // resolved, YAML
  std::string listen = "127.0.0.1:0";  // cluster.listen of it
  rpc::SecurityFiles security;         // likewise
  int workers = 1;
  int spares = 0;  // workers beyond them
  std::string device = "cpu";
  int gpus = 0;  // shared out among the workers; 0: none
  bool resume = false;
  std::string log_level = "info";
  std::string log_format = "text";
  std::string stop_signals;  // names, separated by commas
  // Told of what takes long, and of every worker that is started again.
  std::function<void(const std::string&)> notice;
  // Waits so long, or less; true when somebody wants the program to end before
  // the run has begun.
  std::function<bool(std::chrono::milliseconds)> wait;
};

class LocalCluster {
 public:
  // Starts the coordinator, waits until it serves (however long it verifies a
  // checkpoint), starts the workers. When the coordinator gives up first, the
  // error holds the end of its log and keeps its kind: FAILED_PRECONDITION for
  // exit code 2, INTERNAL otherwise. A run that was over already is no error:
  // then coordinator_exit() is set. CANCELLED when `wait` says so.
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Start(
      const ClusterOptions& options);

  const std::string& address() const { return address_; }

  // Call about ten times a second. Starts dead processes again; an error, which
  // ends the run, when a worker cannot be kept alive, or was told that the run
  // is over (or that it is not wanted) and the coordinator goes on all the
  // same.
  absl::Status Supervise(base::SteadyTime now);

  // Kills workers of this cluster that the coordinator does not know any more.
  void NoteStatus(const v1::GetStatusResponse& status, base::SteadyTime now);

  // Kills a coordinator that has not answered for half a minute, whether it
  // has served yet or not: one that reads for long answers meanwhile.
  void NoteNoAnswer(base::SteadyTime now);

  // host:port of the coordinator's HTTP port; empty before it served.
  const std::string& http_address() const { return http_address_; }

  // Not set while a coordinator that was killed, or a later life that could
  // not start yet, is to be started again.
  std::optional<int> coordinator_exit();
  bool serving() const { return serving_; }
  void SignalCoordinator(int signal) {
    if (coordinator_) coordinator_->Signal(signal);
  }

  // Ends everything: asks the workers to leave, waits up to `grace` for them,
  // then kills what is left. Returns in bounded time.
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
    base::Seconds patience;  // with its absence from the coordinator's answers
    std::optional<base::SteadyTime> absent_since;
  };

  explicit LocalCluster(const ClusterOptions& options) : options_(options) {}
  // A process of the run that ends so was told to: the run is over.
  static bool IsRunsEnd(int code);
  // 0.1 s the first time, doubled for each further one.
  static std::chrono::milliseconds Backoff(int times);
  absl::Status StartWorker(int index, base::SteadyTime now);
  absl::Status CheckEnd(int index, base::SteadyTime now);

  // local_cluster_coordinator.cc
  absl::Status StartFirstCoordinator();
  absl::Status StartCoordinator(base::SteadyTime now);
  void NoteServing(base::SteadyTime now);
  absl::Status DidNotServe(int code) const;
  absl::Status SuperviseCoordinator(base::SteadyTime now);
  // How long to wait before the next life; an error: there is none.
  absl::StatusOr<std::chrono::milliseconds> NoteKilled(int code,
                                                       base::SteadyTime now);
  absl::StatusOr<std::chrono::milliseconds> NoteFailedStart(
      int code, base::SteadyTime now);

  std::string LogPath(const std::string& process) const;
  // What earlier processes logged does not tell why this one ended.
  void NoteLogBegin(const std::string& process);

  static constexpr base::Seconds kShortLife{5};
  static constexpr int kMaxShortLives = 6;

  ClusterOptions options_;
  std::string address_;
  std::string http_address_;
  std::optional<ChildProcess> coordinator_;  // none between two lives
  bool serving_ = false;
  base::SteadyTime coordinator_started_;
  base::SteadyTime coordinator_restart_at_;
  base::SteadyTime told_;  // that the start takes long
  int coordinator_short_lives_ = 0;
  int failed_starts_ = 0;  // in a row
  base::SteadyTime failing_since_;
  bool finished_ = false;
  std::vector<Worker> workers_;
  std::optional<base::SteadyTime> noted_;
  std::optional<base::SteadyTime> unanswered_;  // last time
  std::optional<base::SteadyTime> unanswered_since_;
  std::map<std::string, size_t> log_begins_;
};

// Folder of the running program, where its sibling programs are.
std::string ProgramFolder();

}  // namespace gimbal::cli
