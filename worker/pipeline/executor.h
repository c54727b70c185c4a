// Runs the stages of one worker on one thread, and is the only place that
// waits: when no stage can go on it sleeps until a link, a grant or a written
// snapshot signals. Later stages come first, since their backwards free memory
// earlier.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "worker/pipeline/grants.h"
#include "worker/pipeline/stage_runner.h"
#include "worker/transport/signal.h"

namespace gimbal::worker {

class Executor {
 public:
  // `runners` by increasing stage. They and `signal` must outlive the executor.
  Executor(std::vector<StageRunner*> runners, Signal& signal)
      : runners_(std::move(runners)), signal_(signal) {}

  // Runs until every stage has done its last update (OK), one of them fails
  // (its error), or Cancel is called (CANCELLED).
  absl::Status Run();

  // Thread-safe.
  void Extend(const Grant& grant);
  void Cancel();

 private:
  const std::vector<StageRunner*> runners_;
  Signal& signal_;
  Grants grants_;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace gimbal::worker
