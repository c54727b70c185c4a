// One assignment of a worker, from loading its stages to their last update, on
// a thread of its own. A worker has one at a time; a new one replaces it. When
// another worker was lost the stages stay as they are and wait, and Rewire
// joins them to its successor.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "common/rpc/credentials.h"
#include "common/trace/tracer.h"
#include "gimbal/v1/control_service.pb.h"
#include "worker/agent/edges.h"
#include "worker/agent/outbox.h"
#include "worker/agent/stage_host.h"
#include "worker/agent/worker_data.h"
#include "worker/agent/worker_metrics.h"
#include "worker/checkpoint/checkpoint_store.h"
#include "worker/checkpoint/snapshot_keeper.h"
#include "worker/checkpoint/snapshot_store.h"
#include "worker/checkpoint/snapshot_writer.h"
#include "worker/transport/link_listener.h"

namespace gimbal::worker {

// Makes the store of an assignment's checkpoints, which gives up when told to.
using MakeCheckpointStore = std::function<std::unique_ptr<CheckpointStore>(
    const v1::Assignment& assignment, std::stop_token stop)>;

// Thread-safe.
class AssignmentRun {
 public:
  // Begins at once. `send` gets every message for the coordinator, from several
  // threads; `data` (the run's alone as long as it lives), `listener`, `tracer`
  // and `store`, to which the assignment is known, must outlive the run;
  // `credentials` are for other workers' snapshots, `engine` makes what
  // computes a stage, `device` is what it offers to the links.
  AssignmentRun(int64_t generation, v1::Assignment assignment, WorkerData& data,
                LinkListener& listener, SnapshotStore& store,
                trace::Tracer& tracer,
                std::function<void(v1::WorkerMessage)> send,
                const MakeCheckpointStore& make_checkpoints,
                rpc::Credentials credentials = {},
                EngineFactory engine = MakeCpuEngine, DeviceLinks device = {});
  // Gives the assignment up: leaves blocking calls, closes its edges, waits for
  // the thread.
  ~AssignmentRun();

  int64_t generation() const { return generation_; }
  void Extend(const v1::Grant& grant);
  // Under the new generation from now on. From one thread; replaces a Rewire
  // that is not done yet.
  void Rewire(int64_t generation, const v1::Rewire& rewire);
  // Forgets what only an older cut would need.
  void Committed(const v1::CheckpointCommitted& committed);
  // What a coordinator has to know to leave the stages where they are; nothing
  // before they are loaded and connected.
  std::optional<v1::Holding> Holding() const;
  // What the stages wait for before they are part of the pipeline; empty: they
  // are.
  std::string WaitsFor() const;
  void FlushReports() { outbox_.Flush(); }
  std::vector<v1::StageStatus> Statuses() const;
  // Load and connect, when they are done.
  void FillStart(StartSeconds& start) const;

 private:
  void Main();
  absl::Status Execute();
  absl::Status BuildStages();
  absl::Status LoadState(StageRunner* runner, const StageSpec& spec);
  absl::Status LoadKept(StageRunner* runner);
  absl::StatusOr<std::shared_ptr<const StageSnapshot>> FindKept(int stage);
  void AbandonRewiring();
  StageEvents Events();
  void ReportSnapshot(const SnapshotResult& result);
  void ReportKept(const KeepResult& result);
  void ReportFailure(const absl::Status& status);
  void ReportBroken(int edge, const absl::Status& status);

  std::atomic<int64_t> generation_;
  const v1::Assignment assignment_;
  WorkerData& data_;
  SnapshotStore& store_;
  trace::Tracer& tracer_;
  const rpc::Credentials credentials_;
  const EngineFactory engine_;
  // Newest checkpoint on disk, as far as it is known.
  std::atomic<int64_t> on_disk_;
  Outbox outbox_;
  Signal signal_;
  std::unique_ptr<SnapshotKeeper> keeper_;  // null: nothing is kept
  std::optional<int> without_snapshot_;     // stage; the thread's
  std::stop_source stop_;
  const std::unique_ptr<CheckpointStore> checkpoints_;
  std::unique_ptr<SnapshotWriter> snapshots_;  // the thread's
  Edges edges_;  // before the host, whose links speak to it to the last
  StageHost host_{signal_};
  mutable std::mutex mutex_;
  v1::Grant granted_;  // until and final_update of the last one
  bool ready_ = false;
  StartSeconds start_;
  std::thread rewiring_;
  std::thread thread_;
};

}  // namespace gimbal::worker
