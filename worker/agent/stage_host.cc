#include "worker/agent/stage_host.h"

namespace gimbal::worker {

StageHost::~StageHost() {
  for (const auto& link : links_) link->Close();
}

void StageHost::Add(std::unique_ptr<StageRunner> runner) {
  std::lock_guard lock(mutex_);
  runners_.push_back(std::move(runner));
}

StageRunner* StageHost::Find(int stage) const {
  for (const auto& runner : runners_) {
    if (runner->index() == stage) return runner.get();
  }
  return nullptr;
}

void StageHost::Start(int64_t start) {
  std::vector<StageRunner*> runners;
  for (const auto& runner : runners_) {
    runner->Start(start);
    runners.push_back(runner.get());
  }
  std::lock_guard lock(mutex_);
  executor_ = std::make_unique<Executor>(std::move(runners), signal_);
  for (const Grant& grant : early_grants_) executor_->Extend(grant);
  if (cancelled_) executor_->Cancel();
}

void StageHost::Extend(const Grant& grant) {
  std::lock_guard lock(mutex_);
  if (executor_ == nullptr) {
    early_grants_.push_back(grant);
  } else {
    executor_->Extend(grant);
  }
}

void StageHost::Cancel() {
  cancelled_ = true;
  std::lock_guard lock(mutex_);
  if (executor_ != nullptr) executor_->Cancel();
}

std::vector<std::pair<int, RunnerStatus>> StageHost::Statuses() const {
  std::vector<std::pair<int, RunnerStatus>> statuses;
  std::lock_guard lock(mutex_);
  for (const auto& runner : runners_) {
    statuses.emplace_back(runner->index(), runner->status());
  }
  return statuses;
}

}  // namespace gimbal::worker
