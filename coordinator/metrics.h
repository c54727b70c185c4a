// Every Prometheus metric of the coordinator; names as in the design, listed in
// dashboards/README.md. All series are there from the start, with every value
// that a label can have, so that their number does not depend on what happens:
// only what is not known yet (a loss before the first update, a checkpoint
// before the first commit) is left out, never exported as a placeholder.
//
// What a worker knows alone (times by phase, memory, links) is the worker's
// (worker/agent/worker_metrics.h).
//
// Thread-safe as far as prometheus-cpp is; fed by the loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "coordinator/ledger/metrics_row.h"
#include "coordinator/run/run_effects.h"
#include "gimbal/v1/admin_service.pb.h"
#include "gimbal/v1/run_config.pb.h"

namespace prometheus {
class Registry;
}  // namespace prometheus

namespace gimbal::coordinator {

class CoordinatorMetrics {
 public:
  // `run` is the label of every series: the run's id, as workers have it; names
  // may repeat in a cluster. The registry must outlive this.
  CoordinatorMetrics(prometheus::Registry& registry, const std::string& run,
                     const v1::RunConfig& config);
  ~CoordinatorMetrics();

  void OnRow(const MetricsRow& row);
  void OnLeftOut(const LeftOut& left_out);
  void OnNotFinite();
  void OnStatus(const v1::GetStatusResponse& status);
  void OnRestart(int stage, Loss loss);
  // Those of the run's earlier processes; they use up no budget of this one.
  void RestoreRestarts(int stage, Loss loss, int64_t count);
  // Likewise. What they left out comes through OnLeftOut.
  struct EventCounts {
    int64_t decisions = 0;
    int64_t refresh_changes = 0;
    int64_t not_finite = 0;
    int64_t checkpoint_failures = 0;
  };
  void RestoreEvents(const EventCounts& counts);
  void OnRecovery(int stage, double seconds);
  void OnRefreshChange();
  void OnDecision();
  // A checkpoint that counts: just committed, or found (then without
  // `seconds`, from its cut to its last byte).
  struct CheckpointFacts {
    int64_t update = 0;
    int64_t bytes = 0;
    double unix_seconds = 0;
    std::optional<double> seconds;
  };
  void OnCheckpoint(const CheckpointFacts& checkpoint);
  void OnCheckpointFailure();
  // `method`: of one of the coordinator's services; Session stands for one
  // message of a worker.
  void OnCall(const std::string& method, const absl::Status& status,
              base::Seconds taken);
  // `phase`: "serve" (from the start of the process until it serves) or "train"
  // (from there until all stages run).
  void OnStarted(const std::string& phase, base::Seconds taken);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gimbal::coordinator
