// The worker's Prometheus metrics: per stage, labels run and stage, names of
// the project's metric list.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gimbal/v1/types.pb.h"

namespace prometheus {
class Registry;
}

namespace gimbal::worker {

// Not thread-safe: one thread updates.
class WorkerMetrics {
 public:
  // `run` is the run's id. The registry must outlive this.
  WorkerMetrics(prometheus::Registry& registry, const std::string& run);
  // Takes the metrics out of the registry again.
  ~WorkerMetrics();

  const std::string& run() const;
  // Brings the metrics up to the stages' newest status.
  void Update(const std::vector<v1::StageStatus>& stages);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gimbal::worker
