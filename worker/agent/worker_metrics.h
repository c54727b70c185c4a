// The worker's Prometheus metrics, labelled with run and stage: where the time
// and the memory of its stages go, and what it sends. What the whole run knows
// (staleness, updates, restarts) is the coordinator's (coordinator/metrics.h),
// so that no series is exported twice.
//
// A stage's series are there from its assignment on, before it is loaded, and
// go when it is assigned to somebody else: over all workers their number does
// not depend on restarts. dashboards/README.md lists them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/clock.h"
#include "gimbal/v1/control_service.pb.h"

namespace prometheus {
class Registry;
}

namespace gimbal::worker {

// Seconds that the steps of a start took; 0: not done yet.
struct StartSeconds {
  double registration = 0;  // from the process's start to its first session
  double load = 0;          // of the newest assignment
  double connect = 0;
};

// Not thread-safe: one thread at a time.
class WorkerMetrics {
 public:
  // `run` is the run's id. The registry must outlive this.
  WorkerMetrics(prometheus::Registry& registry, const std::string& run);
  // Takes the metrics out of the registry again.
  ~WorkerMetrics();

  const std::string& run() const;
  // Shows the stages of this assignment and no others. Counters of stages that
  // were shown before go on.
  void Host(const v1::Assignment& assignment);
  // Brings the shown stages up to their newest status; what is said of others
  // is ignored.
  void Update(const std::vector<v1::StageStatus>& stages);
  void Update(const StartSeconds& start);
  // Of the worker's services.
  void OnCall(const char* method, const absl::Status& status,
              base::Seconds taken);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gimbal::worker
