#include "worker/agent/fence.h"

namespace gimbal::worker {

bool Fence::TooLate() const {
  return lease_.count() > 0 && clock_.Now() - last_beat_ > lease_;
}

int64_t Fence::Beat(base::Seconds lease) {
  std::lock_guard lock(mutex_);
  if (TooLate() && !closed_) {
    closed_ = true;
    ++probe_;
  }
  last_beat_ = clock_.Now();
  lease_ = lease;
  return closed_ && !lost_ ? probe_ : 0;
}

void Fence::Answered(int64_t number) {
  {
    std::lock_guard lock(mutex_);
    if (number != probe_) return;
    closed_ = false;
  }
  changed_.notify_all();
}

void Fence::Lose() {
  {
    std::lock_guard lock(mutex_);
    lost_ = true;
  }
  changed_.notify_all();
}

void Fence::LoseIfClosed() {
  {
    std::lock_guard lock(mutex_);
    lost_ = lost_ || closed_;
  }
  changed_.notify_all();
}

void Fence::Renew() {
  {
    std::lock_guard lock(mutex_);
    lost_ = closed_ = false;
    last_beat_ = clock_.Now();
  }
  changed_.notify_all();
}

absl::Status Fence::Await() {
  std::unique_lock lock(mutex_);
  // The heartbeat thread may not have woken up yet.
  if (TooLate() && !closed_) {
    closed_ = true;
    ++probe_;
  }
  changed_.wait(lock, [&] { return lost_ || !closed_; });
  if (!lost_) return absl::OkStatus();
  return absl::AbortedError(
      "the worker was stopped for longer than its lease, its stages were given "
      "to another one");
}

}  // namespace gimbal::worker
