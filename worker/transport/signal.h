// Wakes the executor: many threads notify, one waits. A count remembers
// notifications that came before the wait, so none is lost:
//
//   const uint64_t seen = signal.count();
//   if (!TryToWork()) signal.WaitPast(seen);
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace gimbal::worker {

// Thread-safe.
class Signal {
 public:
  uint64_t count() const {
    std::lock_guard lock(mutex_);
    return count_;
  }
  void Notify() {
    {
      std::lock_guard lock(mutex_);
      ++count_;
    }
    changed_.notify_all();
  }
  void WaitPast(uint64_t seen) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return count_ > seen; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t count_ = 0;
};

}  // namespace gimbal::worker
