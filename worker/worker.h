// The worker process: owns everything in dependency order and follows the
// coordinator until it says to stop.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/log_format.h"
#include "common/obs/health.h"
#include "common/obs/http_server.h"
#include "common/rpc/credentials.h"
#include "common/trace/tracer.h"
#include "worker/agent/assignment_run.h"
#include "worker/agent/fence.h"
#include "worker/agent/session_client.h"
#include "worker/agent/worker_data.h"
#include "worker/agent/worker_metrics.h"
#include "worker/checkpoint/snapshot_service.h"
#include "worker/checkpoint/snapshot_store.h"
#include "worker/pipeline/backend.h"
#include "worker/transport/link_listener.h"

namespace gimbal::worker {

class Worker {
 public:
  struct Options {
    std::string coordinator;  // host:port
    rpc::SecurityFiles security;
    // Host that the coordinator and neighbours are told, instead of
    // that of `listen`; "": the latter.
    std::string advertise;
    std::string name;                            // shown in status
    std::string listen = "127.0.0.1:0";          // links
    std::string metrics_listen = "127.0.0.1:0";  // HTTP
    std::string
        snapshot_listen;  // snapshots; empty: a free port beside `listen`
    std::chrono::seconds patience{60};  // without a coordinator
    Backend backend = CpuBackend();
  };

  // Opens the ports; FAILED_PRECONDITION when others could reach them and
  // nothing tells who they are, or nobody could. `signals` counts the TERM and
  // INT signals received so far.
  static absl::StatusOr<std::unique_ptr<Worker>> Start(
      const Options& options, const std::atomic<int>& signals);
  ~Worker();

  // Registers and works until the coordinator ends the run; returns the
  // process's exit code. After a signal the coordinator is asked, until it has
  // heard, to stop the run at a checkpoint; one that is not there is waited
  // for, unless this worker never was in a run. The assignment may still be at
  // work when this returns; destruction waits for it.
  absl::StatusOr<int> Run();

 private:
  Worker(const Options& options, rpc::Credentials credentials,
         const std::atomic<int>& signals, std::unique_ptr<obs::HttpServer> http,
         std::unique_ptr<LinkListener> listener,
         std::unique_ptr<SnapshotStore> store,
         std::unique_ptr<SnapshotServer> snapshot_server);
  v1::RegisterRequest Registration() const;
  absl::StatusOr<std::shared_ptr<SessionClient>> Register();
  void Pause(std::chrono::milliseconds duration);
  absl::StatusOr<int> FollowSession(SessionClient& session);
  void Handle(v1::CoordinatorMessage message);
  std::unique_ptr<CheckpointStore> CheckpointsOf(
      const v1::Assignment& assignment, std::stop_token stop);
  void ShowStages(const v1::Assignment& assignment);
  void Assign(v1::CoordinatorMessage message);
  void SetTrace(const v1::TraceSetting& setting);
  void Send(v1::WorkerMessage message);
  // Of the stages hosted here; requires the lock.
  std::string WaitsFor() const;
  void HeartbeatLoop();
  void SendHeartbeat();
  // Replaces the assignment (null: none); the old one ends first.
  void Replace(std::unique_ptr<AssignmentRun> run);

  const Options options_;
  const rpc::Credentials credentials_;
  const std::atomic<int>& signals_;
  obs::Health health_;
  std::unique_ptr<obs::HttpServer> http_;
  std::unique_ptr<LinkListener> listener_;
  const std::unique_ptr<SnapshotStore> store_;
  const std::unique_ptr<SnapshotServer> snapshot_server_;
  base::LogContext about_;  // of the main thread
  WorkerData data_;         // of the assignment's thread
  Fence fence_{base::Clock::Real()};
  base::Stopwatch since_start_;
  trace::Tracer tracer_;

  std::mutex mutex_;  // guards what follows; held for moments only
  std::condition_variable changed_;  // stopping_ or session_
  bool stopping_ = false;
  std::unique_ptr<WorkerMetrics> metrics_;
  StartSeconds start_;
  std::shared_ptr<SessionClient> session_;
  std::unique_ptr<AssignmentRun> run_;  // changed and ended by the main thread
  std::thread heartbeat_;
};

}  // namespace gimbal::worker
