// The stages of one assignment with their links: the assignment's thread puts
// them together and runs them, other threads steer and watch from the first
// moment on, while stages are still being loaded and edges connected.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "worker/pipeline/executor.h"
#include "worker/pipeline/stage_runner.h"
#include "worker/transport/link.h"
#include "worker/transport/signal.h"

namespace gimbal::worker {

class StageHost {
 public:
  // `signal` must outlive the host.
  explicit StageHost(Signal& signal) : signal_(signal) {}
  // Closes the links. No other thread may be in Run any more.
  ~StageHost();

  // The assignment's thread, in this order.
  void Add(std::unique_ptr<StageRunner> runner);
  void Add(std::unique_ptr<Link> link) { links_.push_back(std::move(link)); }
  // Null when the stage is not hosted here.
  StageRunner* Find(int stage) const;
  const std::vector<std::unique_ptr<StageRunner>>& runners() const {
    return runners_;
  }
  // All stages stand right after update `start`.
  void Start(int64_t start);
  // As Executor::Run. Requires Start.
  absl::Status Run() { return executor_->Run(); }

  // Any thread, at any time.
  void Extend(const Grant& grant);
  // Lets Run, now or later, end with CANCELLED.
  void Cancel();
  bool cancelled() const { return cancelled_; }
  // Of the stages added so far.
  std::vector<std::pair<int, RunnerStatus>> Statuses() const;

 private:
  Signal& signal_;
  std::atomic<bool> cancelled_ = false;
  // Guards the making of runners and executor, which only the assignment's
  // thread changes.
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<StageRunner>> runners_;
  std::vector<std::unique_ptr<Link>> links_;
  std::unique_ptr<Executor> executor_;
  std::vector<Grant> early_grants_;  // came before the executor
};

}  // namespace gimbal::worker
