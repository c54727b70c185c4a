// One assignment of a worker, from loading its stages to their last update, on
// a thread of its own. A worker has one at a time; a new generation replaces
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gimbal/v1/control_service.pb.h"
#include "worker/agent/outbox.h"
#include "worker/agent/stage_host.h"
#include "worker/agent/worker_data.h"
#include "worker/checkpoint/snapshot_writer.h"
#include "worker/transport/link_listener.h"

namespace gimbal::worker {

// Thread-safe.
class AssignmentRun {
 public:
  // Begins at once. `send` gets every message for the coordinator, from several
  // threads; `data` (the run's alone as long as it lives) and `listener` must
  // outlive the run.
  AssignmentRun(int64_t generation, v1::Assignment assignment, WorkerData& data,
                LinkListener& listener,
                std::function<void(v1::WorkerMessage)> send);
  // Gives the assignment up: leaves blocking calls, closes its edges, waits for
  // the thread.
  ~AssignmentRun();

  int64_t generation() const { return generation_; }
  void Extend(const v1::Grant& grant);
  void FlushReports() { outbox_.Flush(); }
  std::vector<v1::StageStatus> Statuses() const;

 private:
  void Main();
  absl::Status Execute();
  absl::Status BuildStages();
  absl::Status LoadState(StageRunner* runner, const StageSpec& spec) const;
  absl::Status ConnectEdges();
  absl::StatusOr<std::unique_ptr<Link>> ConnectEdge(const EdgeSpec& edge,
                                                    bool upstream_here);
  StageEvents Events();
  void ReportSnapshot(const SnapshotResult& result);
  void ReportFailure(const absl::Status& status);

  const int64_t generation_;
  const v1::Assignment assignment_;
  WorkerData& data_;
  LinkListener& listener_;
  Outbox outbox_;
  Signal signal_;
  std::unique_ptr<SnapshotWriter> snapshots_;  // the thread's
  StageHost host_{signal_};
  std::thread thread_;
};

}  // namespace gimbal::worker
