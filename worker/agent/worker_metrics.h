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
  WorkerMetrics(prometheus::Registry& registry, const std::string& run);
  ~WorkerMetrics();

  // Brings the metrics up to the stages' newest status.
  void Update(const std::vector<v1::StageStatus>& stages);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gimbal::worker
